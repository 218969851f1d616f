"""Jobs grow into idle capacity, and shrink where there is too little of it."""
