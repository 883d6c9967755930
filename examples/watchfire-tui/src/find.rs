//! Searching what has left the screen.

use watchfire_client::daemon_proto::ScrollbackLines;
use watchfire_term::plain;

/// Number of lines that are asked for at a time.
pub(crate) const PAGE: u32 = 2_000;

/// Searches upwards from the line `before`. Returns the number of the first line that contains the text, in either case.
/// `page` reads [`PAGE`] lines from a number on.
pub(crate) async fn upwards<E, Page>(
    text: &str,
    mut before: u64,
    mut page: impl FnMut(u64) -> Page,
) -> Result<Option<u64>, E>
where
    Page: Future<Output = Result<ScrollbackLines, E>>,
{
    let (wanted, mut is_first) = (text.to_lowercase(), true);
    while before > 0 {
        let offset = before.saturating_sub(PAGE.into());
        let page = page(offset).await?;
        // Lines have other numbers since a resize, or so many were printed that all of these are gone.
        if std::mem::take(&mut is_first) && page.offset >= before && page.total > before {
            before = page.total;
            continue;
        }
        let numbered = (page.offset..before).zip(&page.lines);
        let has = |line: &str| plain::strip(line.as_bytes()).to_lowercase().contains(&wanted);
        if let Some((number, _)) = numbered.filter(|(_, line)| has(line)).last() {
            return Ok(Some(number));
        }
        // What lies above is not kept any more.
        if page.offset > offset || page.lines.is_empty() {
            return Ok(None);
        }
        before = offset;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::ops::Range;

    use super::*;

    /// Searches lines with these numbers, which say them. Returns what was found, and the number of pages that were read.
    async fn search(text: &str, before: u64, kept: Range<u64>) -> (Option<u64>, u32) {
        let mut pages = 0;
        let found = upwards(text, before, |from| {
            pages += 1;
            assert!(pages < 20, "it does not end");
            let end = (from + u64::from(PAGE)).clamp(kept.start, kept.end);
            let lines: Vec<_> = (from.max(kept.start)..end).map(|number| format!("line {number}.")).collect();
            let offset = end - lines.len() as u64;
            ready(Ok::<_, Infallible>(ScrollbackLines { lines, offset, total: kept.end }))
        });
        (found.await.unwrap(), pages)
    }

    #[tokio::test]
    async fn the_nearest_line_above_is_found() {
        assert_eq!(search("LINE 7", 9_000, 0..9_000).await, (Some(7_999), 1));
        assert_eq!(search("line 7", 7_500, 0..9_000).await, (Some(7_499), 1));
        assert_eq!(search("line 17.", 9_000, 0..9_000).await, (Some(17), 5));
    }

    /// Also where the last page ends at the oldest line that is kept.
    #[tokio::test]
    async fn a_search_in_vain_ends() {
        for kept in [0..0, 0..10_000, 1_977..11_977, 1_977..12_000, 1 << 32..(1 << 32) + 4_000] {
            let (found, pages) = search("needle", kept.end, kept.clone()).await;
            assert!(found.is_none() && pages <= 7, "{kept:?} {pages}");
        }
    }

    #[tokio::test]
    async fn lines_that_were_numbered_anew_are_searched_from_the_last_one() {
        assert_eq!(search("line 5", 2_479, 5_000..7_479).await, (Some(5_999), 2));
        assert_eq!(search("needle", 2_479, 5_000..7_479).await.0, None);
    }
}
