//! The items of a long list as bytes: written by all processors, in pieces that are no large blocks of memory.

use std::num::NonZero;
use std::thread;

/// Bytes in a row.
pub(crate) type Pieces = Vec<Vec<u8>>;

/// A piece is closed once it has so many bytes. Larger blocks come from the operating system and back to it one by one, or
/// stay in the allocator, which then holds the largest answer that there ever was.
const PIECE_BYTES: usize = 128 << 10;

/// Fewer items are written sooner than a thread is started.
const ITEMS_PER_THREAD_MIN: usize = 2000;

/// How many bytes they are.
pub(crate) fn length(pieces: &Pieces) -> usize {
    pieces.iter().map(Vec::len).sum()
}

/// Writes the items in their order, each with its index.
pub(crate) fn write<T, E>(
    items: &[T],
    write: impl Fn(usize, &T, &mut Vec<u8>) -> Result<(), E> + Sync,
) -> Result<Pieces, E>
where
    T: Sync,
    E: Send,
{
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (items.len() / ITEMS_PER_THREAD_MIN).clamp(1, processors);
    let length = items.len().div_ceil(threads).max(1);
    let share = |number: usize, items: &[T]| share(number * length, items, &write);
    if threads == 1 {
        return share(0, items);
    }
    // What an object's fields are called, and what they hold, is all over the memory. Waiting for it is what a list takes.
    thread::scope(|scope| {
        let share = &share;
        let shares: Vec<_> =
            items.chunks(length).enumerate().map(|(number, items)| scope.spawn(move || share(number, items))).collect();
        let mut pieces = Pieces::new();
        for share in shares {
            pieces.extend(share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(pieces)
    })
}

fn share<T, E>(
    first: usize,
    items: &[T],
    write: impl Fn(usize, &T, &mut Vec<u8>) -> Result<(), E>,
) -> Result<Pieces, E> {
    let (mut pieces, mut piece) = (Pieces::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        if piece.len() >= PIECE_BYTES {
            // The next one is as long, with room for what the last item may be longer.
            pieces.push(std::mem::replace(&mut piece, Vec::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 4))));
        }
        write(first + index, item, &mut piece)?;
    }
    pieces.push(piece);
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn text(index: usize, item: &usize, bytes: &mut Vec<u8>) -> Result<(), Infallible> {
        bytes.extend(format!("{index}={item};").bytes());
        Ok(())
    }

    #[test]
    fn items_are_written_in_their_order_however_many_they_are() {
        for count in [0, 1, ITEMS_PER_THREAD_MIN * 2 - 1, ITEMS_PER_THREAD_MIN * 2, ITEMS_PER_THREAD_MIN * 40 + 7] {
            let items: Vec<usize> = (0..count).map(|index| index * 7).collect();
            let Ok(pieces) = write(&items, text);
            let mut expected = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let Ok(()) = text(index, item, &mut expected);
            }
            assert!(pieces.concat() == expected, "{count} items");
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES + 100));
        }
    }

    #[test]
    fn the_first_item_that_cannot_be_written_is_the_error() {
        let items: Vec<usize> = (0..ITEMS_PER_THREAD_MIN * 4).collect();
        let refuse = |index: usize, _: &usize, _: &mut Vec<u8>| if index < 4000 { Ok(()) } else { Err(index) };
        assert_eq!(write(&items, refuse), Err(4000));
    }
}
