//! Writes the items of a long list as bytes, in pieces of moderate size.

/// Consecutive bytes.
pub(crate) type Pieces = Vec<Vec<u8>>;

/// A new piece begins after this many bytes. With larger blocks, the allocator would not return memory to the system,
/// and the process would keep twice the size of the longest answer.
const PIECE_BYTES: usize = 128 << 10;

/// The total number of bytes.
pub(crate) fn length(pieces: &Pieces) -> usize {
    pieces.iter().map(Vec::len).sum()
}

/// Writes the items in order. `write` gets each item with its index.
pub(crate) fn write<T, E>(items: &[T], write: impl Fn(usize, &T, &mut Vec<u8>) -> Result<(), E>) -> Result<Pieces, E> {
    let (mut pieces, mut piece) = (Pieces::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        if piece.len() >= PIECE_BYTES {
            // The next piece is slightly larger, because its last item may go beyond the limit.
            pieces.push(std::mem::replace(&mut piece, Vec::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 4))));
        }
        write(index, item, &mut piece)?;
    }
    pieces.push(piece);
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn items_are_written_in_their_order_however_many_they_are() {
        for count in [0, 1, 100_000] {
            let items: Vec<String> = (0..count).map(|index| format!("{};", index * 7)).collect();
            let Ok(pieces) = write(&items, |index, item, bytes| -> Result<(), Infallible> {
                bytes.extend(format!("{index}={item}").bytes());
                Ok(())
            });
            let expected: Vec<String> = (0..count).map(|index| format!("{index}={};", index * 7)).collect();
            let expected = expected.concat();
            assert!(pieces.concat() == expected.as_bytes(), "{count} items");
            assert_eq!(length(&pieces), expected.len());
            assert!(pieces.iter().all(|piece| piece.len() < PIECE_BYTES + 20));
        }
    }

    #[test]
    fn the_first_item_that_cannot_be_written_is_the_error() {
        let refuse = |index: usize, (): &(), _: &mut Vec<u8>| if index < 5 { Ok(()) } else { Err(index) };
        assert_eq!(write(&[(); 9], refuse), Err(5));
    }
}
