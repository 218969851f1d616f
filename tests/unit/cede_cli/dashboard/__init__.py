"""The page of `cede dashboard`: its facts, its server, and the page in a browser."""
