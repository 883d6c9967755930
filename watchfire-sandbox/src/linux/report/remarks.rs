//! What is told beside the controls.

use super::facts::{Facts, listed, shown};
use crate::linux::sandbox::Means;

impl Facts {
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(why) = &self.no_namespaces {
            remarks.push(match self.means {
                Means::Own | Means::Neither => format!("stepped down from namespaces: {why}"),
                Means::Bwrap | Means::Birdcage => {
                    format!("landlock with namespaces does not work here: {why}")
                }
            });
        }
        if self.bwrap() {
            remarks.push("a signal to the command ends it at once: bwrap hands none on".to_owned());
            remarks.push("read-only files that are replaced outside can be written".to_owned());
        }
        if self.means == Means::Birdcage {
            let what = [
                "read-only files that are replaced outside can be written",
                "programs cannot be traced: strace and debuggers do not work",
                "nothing starts where something beside a hidden place goes away at that moment",
                "a signal to the command ends birdcage's own process at once, and job control does not work",
                "links in folders that show in part do not show, but those in / that lead to /usr",
            ];
            remarks.extend(what.map(str::to_owned));
        }
        if self.abi == 0 {
            remarks.push("without landlock: the view alone holds".to_owned());
        }
        if !self.unlistable.is_empty() {
            remarks.push(format!(
                "cannot be listed, and what is made there later cannot be read: {}",
                listed(shown(&self.unlistable))
            ));
        }
        if !self.closed.is_empty() {
            remarks.push(format!(
                "writable, but nothing new can be made directly in it: {}",
                listed(shown(&self.closed))
            ));
        }
        remarks.push(
            "files with several hard links, one of them in a writable folder, can be changed there"
                .to_owned(),
        );
        remarks
    }
}
