//! Reads a source map (ECMA-426), to map a place in a bundle to a place in its sources.

use serde_json::Value;

/// A parsed source map.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceMap {
    /// The paths of the sources, relative to the bundle, without leading `../`.
    sources: Vec<String>,
    /// For each line of the bundle, its segments ordered by column.
    lines: Vec<Vec<MapSegment>>,
}

/// The origin of a piece of a line. Lines and columns count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MapSegment {
    column: i64,
    source: usize,
    source_line: i64,
    source_column: i64,
}

impl SourceMap {
    /// Parses a source map. `None` if `text` is not valid.
    pub(super) fn read(text: &str) -> Option<Self> {
        let map: Value = serde_json::from_str(text).ok()?;
        let short = |source: &Value| source.as_str().map(|source| source.trim_start_matches("../").to_owned());
        let sources = map["sources"].as_array()?.iter().map(short).collect::<Option<_>>()?;
        // The source, line and column are relative to the previous segment, also across lines.
        let mut state = [0; 3];
        let lines =
            map["mappings"].as_str()?.split(';').map(|line| segments(line, &mut state)).collect::<Option<_>>()?;
        Some(Self { sources, lines })
    }

    /// The place in the sources for a place in the bundle: the file, the line and the column. Lines and columns count
    /// from 1.
    pub(super) fn find(&self, line: usize, column: i64) -> Option<(&str, i64, i64)> {
        let segments = self.lines.get(line.checked_sub(1)?)?;
        let at = segments.partition_point(|segment| segment.column < column).checked_sub(1)?;
        let MapSegment { source, source_line, source_column, .. } = segments[at];
        Some((self.sources.get(source)?, source_line + 1, source_column + 1))
    }
}

fn segments(line: &str, state: &mut [i64; 3]) -> Option<Vec<MapSegment>> {
    let (mut found, mut column) = (Vec::new(), 0);
    for segment in line.split(',').filter(|segment| !segment.is_empty()) {
        let numbers = numbers(segment)?;
        column += numbers.first()?;
        // A segment with a single number has no source.
        if let [_, changes @ ..] = &*numbers
            && changes.len() >= state.len()
        {
            for (value, change) in state.iter_mut().zip(changes) {
                *value += change;
            }
            let [source, source_line, source_column] = *state;
            found.push(MapSegment { column, source: usize::try_from(source).ok()?, source_line, source_column });
        }
    }
    Some(found)
}

/// Numbers in base 64 VLQ, whose lowest bit is the sign.
fn numbers(text: &str) -> Option<Vec<i64>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut numbers, mut value, mut shift) = (Vec::new(), 0_i64, 0);
    for byte in text.bytes() {
        let digit = i64::try_from(DIGITS.iter().position(|digit| *digit == byte)?).ok()?;
        value |= (digit & 31).checked_shl(shift).filter(|_| shift < 60)?;
        shift += 5;
        if digit & 32 == 0 {
            numbers.push(if value & 1 == 1 { -(value >> 1) } else { value >> 1 });
            (value, shift) = (0, 0);
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(mappings: &str) -> Option<SourceMap> {
        SourceMap::read(&format!(r#"{{"sources":["../../plugin.ts","../sdk/log.js"],"mappings":"{mappings}"}}"#))
    }

    #[test]
    fn numbers_are_read_with_their_signs_and_lengths() {
        assert_eq!(numbers("AACDgBhB"), Some(vec![0, 0, 1, -1, 16, -16]));
        assert_eq!(numbers("!"), None);
        assert_eq!(numbers("ggggggggggggggggggggggggggg"), None, "longer than any number");
    }

    #[test]
    fn a_place_comes_from_the_last_segment_before_it() {
        let map = map("AAAA,ICEE;;AADA").expect("a map");
        assert_eq!(map.find(1, 1), Some(("plugin.ts", 1, 1)));
        assert_eq!(map.find(1, 4), Some(("plugin.ts", 1, 1)));
        assert_eq!(map.find(1, 5), Some(("sdk/log.js", 3, 3)));
        assert_eq!(map.find(2, 1), None, "a line that comes from nowhere");
        assert_eq!(map.find(3, 9), Some(("sdk/log.js", 2, 3)));
        assert_eq!((map.find(0, 1), map.find(9, 1)), (None, None));
    }

    #[test]
    fn an_invalid_source_map_is_ignored() {
        assert_eq!(SourceMap::read("{}"), None);
        assert_eq!(map("????"), None);
    }
}
