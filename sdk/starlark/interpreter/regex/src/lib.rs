//! Regular expressions that match nothing, as a replacement for the crate `regex`.
//!
//! The crate `starlark` parses the documentation of its functions with regular expressions whenever an instance starts,
//! for tools that show it. Plugins never show it. With the real `regex`, a component would be a fifth larger, and a
//! call in a new instance would spend most of its time there. Code that runs while the interpreter is built uses the
//! real crate.

#[cfg(not(target_arch = "wasm32"))]
pub use regex_lite::*;

#[cfg(target_arch = "wasm32")]
pub use self::nothing::{Captures, Error, Match, Regex, RegexBuilder};

#[cfg(target_arch = "wasm32")]
mod nothing {
    use std::borrow::Cow;
    use std::fmt;
    use std::marker::PhantomData;

    /// Matches nothing.
    #[derive(Clone, Debug)]
    pub struct Regex(String);

    /// Makes one.
    #[derive(Debug)]
    pub struct RegexBuilder(String);

    /// Never made.
    #[derive(Debug)]
    pub enum Error {}

    /// Never made.
    #[derive(Debug)]
    pub struct Captures<'h>(Never, PhantomData<&'h ()>);

    /// Never made.
    #[derive(Clone, Copy, Debug)]
    pub struct Match<'h>(Never, PhantomData<&'h ()>);

    #[derive(Clone, Copy, Debug)]
    enum Never {}

    impl fmt::Display for Error {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }

    impl std::error::Error for Error {}

    impl fmt::Display for Regex {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str(&self.0)
        }
    }

    impl Regex {
        /// Accepts any pattern.
        pub fn new(pattern: &str) -> Result<Self, Error> {
            Ok(Self(pattern.to_owned()))
        }

        /// The pattern.
        #[must_use]
        pub fn as_str(&self) -> &str {
            &self.0
        }

        /// False.
        #[must_use]
        pub fn is_match(&self, _: &str) -> bool {
            false
        }

        /// None.
        #[must_use]
        pub fn captures<'h>(&self, _: &'h str) -> Option<Captures<'h>> {
            None
        }

        /// Returns the text unchanged.
        pub fn replace_all<'h, R>(&self, text: &'h str, _: R) -> Cow<'h, str> {
            Cow::Borrowed(text)
        }
    }

    impl RegexBuilder {
        /// Accepts any pattern.
        #[must_use]
        pub fn new(pattern: &str) -> Self {
            Self(pattern.to_owned())
        }

        /// Nothing.
        pub fn dot_matches_new_line(&mut self, _: bool) -> &mut Self {
            self
        }

        /// Nothing.
        pub fn multi_line(&mut self, _: bool) -> &mut Self {
            self
        }

        /// Succeeds.
        pub fn build(&self) -> Result<Regex, Error> {
            Regex::new(&self.0)
        }
    }

    impl<'h> Captures<'h> {
        /// Never called.
        #[must_use]
        pub fn get(&self, _: usize) -> Option<Match<'h>> {
            match self.0 {}
        }
    }

    impl std::ops::Index<usize> for Captures<'_> {
        type Output = str;

        fn index(&self, _: usize) -> &str {
            match self.0 {}
        }
    }

    impl<'h> Match<'h> {
        /// Never called.
        #[must_use]
        pub fn start(&self) -> usize {
            match self.0 {}
        }

        /// Never called.
        #[must_use]
        pub fn as_str(&self) -> &'h str {
            match self.0 {}
        }
    }
}
