//! Checks the formats of numbers with a check digit or with groups of digits.

use super::is_go_space;

/// Like `strfmt/default.go`: an ISBN in one of its two forms.
pub(super) fn is_isbn(text: &str) -> bool {
    is_isbn10(text) || is_isbn13(text)
}

/// Like `IsISBN10` in `govalidator`: spaces and dashes are ignored.
pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = without_gaps(text);
    let value = |(index, digit): (usize, &u8)| match digit {
        b'0'..=b'9' => Some(u32::from(digit - b'0')),
        b'X' if index == 9 => Some(10),
        _ => None,
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    values.is_some_and(|values| {
        values.len() == 10 && values.iter().zip(1..).map(|(value, place)| value * place).sum::<u32>().is_multiple_of(11)
    })
}

/// Like `IsISBN13` in `govalidator`: spaces and dashes are ignored.
pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = without_gaps(text);
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits
            .iter()
            .zip([1, 3].into_iter().cycle())
            .map(|(digit, factor)| u32::from(digit - b'0') * factor)
            .sum::<u32>()
            .is_multiple_of(10)
}

fn without_gaps(text: &str) -> Vec<u8> {
    text.chars().filter(|c| *c != '-' && !is_go_space(*c)).collect::<String>().into_bytes()
}

/// Like `IsCreditCard` in `govalidator`: only the digits count. They are checked by the issuers' ranges and Luhn's sum.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let begins = |length: usize, from: &str, to: &str| {
        digits.len() == length && digits.get(..from.len()).is_some_and(|prefix| (from..=to).contains(&prefix))
    };
    let is_issued = begins(13, "4", "4")
        || begins(16, "4", "4")
        || begins(16, "51", "55")
        || begins(16, "6011", "6011")
        || begins(16, "65", "65")
        || begins(15, "34", "34")
        || begins(15, "37", "37")
        || begins(14, "300", "305")
        || begins(14, "36", "36")
        || begins(14, "38", "38")
        || begins(15, "2131", "2131")
        || begins(15, "1800", "1800")
        || begins(16, "35", "35");
    let doubled = |digit: u32| if digit < 5 { digit * 2 } else { digit * 2 - 9 };
    let sum: u32 = digits
        .bytes()
        .rev()
        .map(|digit| u32::from(digit - b'0'))
        .enumerate()
        .map(|(place, digit)| if place % 2 == 1 { doubled(digit) } else { digit })
        .sum();
    is_issued && sum.is_multiple_of(10)
}

/// Like `IsSSN` in `govalidator`: both separators are required.
pub(super) fn is_social_security_number(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(place, byte)| match place {
            3 | 6 => byte == b'-' || byte == b' ',
            _ => byte.is_ascii_digit(),
        })
}
