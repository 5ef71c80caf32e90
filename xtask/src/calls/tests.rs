//! The resolver on small made-up sources.
