"""Pictures of graphs: scenes, folding, dot text, pages."""
