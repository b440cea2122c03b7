"""Files in, files out, for every front end: text of ``specs/*.yaml`` becomes nodes with positions,
problems become messages in clang's format, generated text becomes a tree on disk. Knows nothing of
what entries mean; `read` of each front end and `cli` call it."""
