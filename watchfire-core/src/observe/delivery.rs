//! Bringing text to a session: whether it takes text, and how far a text has come.
//!
//! The two are told apart, so that nobody has to guess from one word why a text did not arrive. `docs/watch.md` has the table.

use serde::{Deserialize, Serialize};

use crate::Error;

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every variant, in alphabetical order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// The state of a delivery.
    DeliveryState {
        /// The text did not arrive.
        Failed = "failed",
        /// A way was chosen; nothing is submitted yet.
        Pending = "pending",
        /// The text was written and submitted.
        Submitted = "submitted",
    }
}

words! {
    /// Readiness of a session for text.
    RuntimeState {
        /// It runs and takes text by a protocol.
        HeadlessAvailable = "headless_available",
        /// It runs, and its agent is ready for text on its terminal.
        LivePtyAvailable = "live_pty_available",
        /// It runs, and its agent is not ready. A text waits its turn.
        QueuedNotReady = "queued_not_ready",
        /// It runs and takes no text: its agent reads none, or its input was lost when the session was taken over.
        RestoredWithoutSender = "restored_without_sender",
        /// It does not run.
        TargetOff = "target_off",
    }
}

/// Result of sending a text to one session.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeliveryDetail {
    /// Id of the session.
    pub uuid: String,
    /// Its name for people.
    pub name: String,
    /// Name of the backend.
    pub provider: String,
    /// Readiness of the session when the text was sent.
    pub runtime_state: RuntimeState,
    /// State of the text's delivery.
    pub delivery_state: DeliveryState,
    /// Why it did not arrive.
    pub error: Option<DeliveryError>,
}

impl DeliveryDetail {
    /// Returns the detail of a text that was handed to a session.
    #[must_use]
    pub fn new(
        (uuid, name, provider): (String, String, String),
        runtime_state: RuntimeState,
        delivery_state: DeliveryState,
    ) -> Self {
        Self { uuid, name, provider, runtime_state, delivery_state, error: None }
    }

    /// Sets why it did not arrive.
    #[must_use]
    pub fn with_error(mut self, error: &Error) -> Self {
        let code = error.code().to_owned();
        self.error = Some(DeliveryError { code, message: error.message().to_owned() });
        self
    }
}

/// Why a text did not arrive.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeliveryError {
    /// Stable code.
    pub code: String,
    /// Message for people.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of `docs/watch.md` have these words and no others.
    #[test]
    fn the_document_has_the_words() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/watch.md");
        // Published without the documents of the workspace.
        let Ok(text) = std::fs::read_to_string(path) else { return };
        let rows = |heading: &str| {
            let table = text.split(heading).nth(1).expect(heading).split("\n\n").next().unwrap();
            let words = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
            words.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        let runtime = RuntimeState::ALL.iter().map(|state| state.as_str().to_owned()).collect();
        assert_eq!(rows("| `runtime_state` | meaning |"), runtime);
        let delivery = DeliveryState::ALL.iter().map(|state| state.as_str().to_owned()).collect();
        assert_eq!(rows("| `delivery_state` | meaning |"), delivery);
    }

    #[test]
    fn the_words_are_those_of_the_wire() {
        for state in RuntimeState::ALL {
            assert_eq!(serde_json::json!(state), state.as_str());
        }
        for state in DeliveryState::ALL {
            assert_eq!(serde_json::json!(state), state.as_str());
        }
    }
}
