//! Hyperlinks (OSC 8) by number.

use std::collections::HashMap;
use std::sync::Arc;

use watchfire_core::terminal::Hyperlink;

/// Longest target that is kept, in bytes.
// VTE's limit, taken from browsers.
const LONGEST: usize = 2083;
/// Number of links from which on unused ones are searched for.
// Cells know links by sixteen bits of their look.
const MOST: usize = 60_000;
/// Upper bound for the size of all links. Beyond it new links are dropped while the old ones show.
const MOST_BYTES: usize = 4 << 20;

/// Links by number; zero is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    links: Vec<Option<Arc<Hyperlink>>>,
    numbers: HashMap<Arc<Hyperlink>, u16>,
    free: Vec<u16>,
    bytes: usize,
    /// Number of links dropped for lack of room since the last search for unused ones.
    dropped: usize,
    limit: usize,
}

impl Links {
    pub(crate) fn get(&self, number: u16) -> Option<&Arc<Hyperlink>> {
        self.links.get(usize::from(number).checked_sub(1)?)?.as_ref()
    }

    /// Returns the number of a link, unless it is too long or there are too many.
    pub(crate) fn number(&mut self, id: &str, uri: &str) -> u16 {
        // An empty target ends a link. One that is cut off would lead elsewhere, so a long one is none.
        if uri.is_empty() || uri.len() > LONGEST || id.len() > 256 {
            return 0;
        }
        let bytes = uri.len() + id.len() + size_of::<Hyperlink>();
        let link = Arc::new(Hyperlink::new(id, uri));
        if let Some(number) = self.numbers.get(&link) {
            return *number;
        }
        if self.bytes >= MOST_BYTES {
            self.dropped += bytes;
            return 0;
        }
        let index = match self.free.pop() {
            Some(number) => usize::from(number) - 1,
            None if self.links.len() < MOST => {
                self.links.push(None);
                self.links.len() - 1
            }
            None => return 0,
        };
        self.bytes += bytes;
        if let Some(slot) = self.links.get_mut(index) {
            *slot = Some(Arc::clone(&link));
        }
        let number = (index + 1) as u16;
        self.numbers.insert(link, number);
        number
    }

    /// Returns true if unused links should be searched for.
    pub(crate) fn is_crowded(&self) -> bool {
        self.bytes + self.dropped > self.limit.max(1 << 19)
    }

    /// Forgets all links but these.
    pub(crate) fn retain(&mut self, used: impl Iterator<Item = u16>) {
        let mut keep = vec![false; self.links.len() + 1];
        for number in used {
            if let Some(keep) = keep.get_mut(usize::from(number)) {
                *keep = true;
            }
        }
        let (links, bytes, free) = (&mut self.links, &mut self.bytes, &mut self.free);
        self.numbers.retain(|link, number| {
            let kept = keep.get(usize::from(*number)).copied().unwrap_or(false);
            if !kept {
                *bytes = bytes.saturating_sub(link.uri.len() + link.id.len() + size_of::<Hyperlink>());
                if let Some(slot) = links.get_mut(usize::from(*number) - 1) {
                    *slot = None;
                }
                free.push(*number);
            }
            kept
        });
        (self.dropped, self.limit) = (0, self.bytes + (1 << 18));
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes
            + self.links.capacity() * size_of::<usize>()
            + self.numbers.capacity() * 2 * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_numbers_until_unused() {
        let mut links = Links::default();
        let (a, b) = (links.number("", "https://a.example"), links.number("1", "https://a.example"));
        assert!(a != b && a != 0);
        links.retain([b].into_iter());
        assert_eq!(links.get(a), None);
        assert_eq!(links.number("", "https://b.example"), a);
        assert_eq!(links.get(b).map(|link| link.id.as_str()), Some("1"));
        assert_eq!((links.number("", ""), links.number("", &"x".repeat(9999))), (0, 0));
    }
}
