//! A folder mounted through a Forebay cache.
