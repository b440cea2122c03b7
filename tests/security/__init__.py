"""Files of strangers at every door: models, weights, specs, rules, programs, caches, names in
pages. A file a door; docs/security.md says for users what is trusted."""
