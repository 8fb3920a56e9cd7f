//! Standard base64, one way: what Secrets hold.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for position in 0..4 {
            let sextet = (bits >> (18 - 6 * position)) & 0x3f;
            let used = position <= chunk.len();
            text.push(if used { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn short_groups_are_padded() {
        let cases = [("", ""), ("a", "YQ=="), ("hi", "aGk="), ("abc", "YWJj")];
        for (plain, encoded) in cases {
            assert_eq!(encode(plain.as_bytes()), encoded);
        }
    }
}
