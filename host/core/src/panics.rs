//! Extracts the message of a caught panic.

use std::any::Any;

/// The message of a caught panic.
#[must_use]
pub fn cause(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_thrown_has_a_text() {
        assert_eq!(cause(&"told"), "told");
        assert_eq!(cause(&"formatted".to_owned()), "formatted");
        assert_eq!(cause(&7), "a panic without a message");
    }
}
