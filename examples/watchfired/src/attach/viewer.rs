//! A person at a terminal: what an agent shows goes there, and what the person types to the agent.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use watchfire_api::keys::{Detaching, Key, Keys};
use watchfire_api::work_proto::{AttachEnd, AttachRequest};
use watchfire_core::Result;
use watchfire_core::session::Session;

use super::client::{Client, Said};
use super::scroll::{self, Back};
use super::shown::{Given, Shown};
use super::terminal::Terminal;
use super::typing::Typing;
use crate::Daemon;
use crate::service::{Screen, Update, size};

/// Time limit for the keys before the one that detaches, and for the lines that the person scrolls to.
const SOON: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const READ: usize = 4096;

/// A person at a terminal.
pub(super) struct Viewer {
    read_only: bool,
    is_chat: bool,
    session: Option<Session>,
    shown: Shown,
    size: Given,
    typing: Typing,
    detaching: Detaching,
    /// Finds the second Ctrl+C.
    keys: Keys,
}

impl Viewer {
    pub(super) async fn new(daemon: &Daemon, terminal: Terminal, request: AttachRequest) -> Self {
        // One that has ended takes nothing more, and its end is told by its screen.
        let session = daemon.session(&request.project_id, &request.session_id).await.ok();
        let size = if request.keeps_size { Given::lost() } else { Given::default() };
        let mut viewer = Self {
            read_only: request.read_only,
            is_chat: request.is_chat,
            session: session.clone(),
            shown: Shown::begin(terminal),
            size,
            typing: Typing::new(session, request.typed),
            detaching: Detaching::default(),
            keys: Keys::default(),
        };
        if viewer.size.is_ours() {
            viewer.fit();
        }
        viewer
    }

    /// Returns the keys that the agent has not got.
    pub(super) fn into_rest(self) -> Vec<u8> {
        self.typing.into_rest()
    }

    /// Shows the screens and passes keys on, until one side ends it.
    pub(super) async fn show(&mut self, mut screen: Screen, client: &mut Client<'_>) -> Result<AttachEnd> {
        let mut read = vec![0; READ];
        loop {
            // In this order: a client that has gone wants its terminal back.
            tokio::select! {
                biased;
                said = client.next() => match said {
                    Some(Said::Resized) => self.resized().await,
                    Some(Said::Typed(typed)) => if let Some(end) = self.typed(&typed).await {
                        return Ok(end);
                    },
                    None => return Ok(AttachEnd::default()),
                },
                () = self.typing.finish(), if !self.typing.is_done() => {}
                typed = self.shown.next(&mut read) => {
                    let Some(typed) = typed else { return Ok(AttachEnd::default()) };
                    if self.shown.lacks_something() {
                        self.scroll(self.shown.back()).await;
                    }
                    if typed == 0 {
                        continue;
                    }
                    if let Some(end) = self.typed(&read[..typed]).await {
                        return Ok(end);
                    }
                }
                update = screen.next(), if self.shown.is_drawn() => match update? {
                    Some((_, Update::Changed(next))) => {
                        self.size.see(next.size);
                        self.shown.show(next);
                        client.tell(self.size.is_ours()).await;
                    }
                    Some((_, Update::Over { exit_code, outcome })) => {
                        let outcome = outcome.as_str().to_owned();
                        return Ok(AttachEnd { outcome, exit_code, ..AttachEnd::default() });
                    }
                    None => return Ok(AttachEnd::default()),
                },
            }
        }
    }

    /// Takes in what was typed. Returns the end that the person wants.
    async fn typed(&mut self, typed: &[u8]) -> Option<AttachEnd> {
        let before = self.detaching.before(typed);
        let detaches = before.len() < typed.len();
        if !detaches && self.scrolls(before).await {
            return None;
        }
        let (through, ends) = match self.keys.take_in(before, Instant::now()) {
            Key::Through(bytes) => (bytes, false),
            Key::End => (Vec::new(), true),
        };
        if !through.is_empty() && !self.read_only {
            // Who types has the size, too: another terminal may have changed it.
            let here = self.shown.terminal().size();
            let fits = self.shown.screen().is_none_or(|screen| screen.size == here);
            if !fits || !self.size.is_ours() {
                self.fit();
            }
            if !self.typing.keep(&through) {
                self.shown.say("the agent reads nothing; what you type now is lost");
            }
        }
        let ends_chat = ends && self.is_chat && !self.read_only;
        if (detaches || ends) && !ends_chat {
            let _ = timeout(SOON, self.typing.finish()).await;
        }
        (detaches || ends).then(|| AttachEnd { ends_chat, ..AttachEnd::default() })
    }

    async fn resized(&mut self) {
        let is_ours = self.size.is_ours();
        if is_ours {
            self.fit();
        }
        match self.shown.back() {
            Some(back) => self.scroll(Some(back)).await,
            // The terminal may have moved what it shows.
            None if !is_ours => self.shown.paint(),
            None => {}
        }
    }

    /// Takes the keys of a person who scrolls, or begins to. Returns false for keys of the agent.
    async fn scrolls(&mut self, typed: &[u8]) -> bool {
        let screen = self.shown.screen().filter(|_| !self.detaching.is_pasting());
        let Some(screen) = screen else { return false };
        if self.shown.back().is_none() && !scroll::begins(typed, screen) {
            return false;
        }
        let mut back = Some(self.shown.back().unwrap_or_else(|| Back::at_end(screen)));
        for to in scroll::moves(typed) {
            // What follows the key that returns was not meant for the agent.
            back = back.and_then(|back| back.go(to, screen, self.shown.terminal().size()));
        }
        self.scroll(back).await;
        true
    }

    /// Shows the lines at a place that the person has scrolled to, or the screen again.
    async fn scroll(&mut self, back: Option<Back>) {
        let painted = match (back, self.shown.screen(), &self.session) {
            (Some(back), Some(screen), Some(session)) => {
                let painted = back.paint(session, screen, self.shown.terminal().size());
                timeout(SOON, painted).await.ok().map(|painted| (back, painted))
            }
            _ => None,
        };
        match painted {
            Some((back, painted)) => self.shown.scroll_to(back, &painted),
            None => self.shown.paint(),
        }
    }

    /// Gives the agent the size of this terminal, before what is typed. The newest terminal has it, and then the one where something is
    /// typed.
    fn fit(&mut self) {
        let here = self.shown.terminal().size();
        // The agent's terminal has no more than a thousand rows and columns.
        if !self.read_only && size(here.rows().into(), here.cols().into()).is_ok() {
            self.size = Given::new(here);
            self.typing.fit(here);
        }
    }
}
