"""Pictures of graphs: scenes, folding, dot text, Model Explorer."""
