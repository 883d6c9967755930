//! Classifies a provider's errors as issues. Only for errors that arrive as errors, never for the words of an agent.

use watchfire_core::backend::{Fact, Issue, IssueKind, Status};

/// Returns the issue of an HTTP status.
pub(crate) fn by_status(status: u64) -> Option<IssueKind> {
    Some(match status {
        401 | 403 => IssueKind::AuthRequired,
        402 => IssueKind::OutOfCredit,
        426 => IssueKind::Outdated,
        429 => IssueKind::RateLimited,
        500..=599 => IssueKind::Overloaded,
        _ => return None,
    })
}

/// Returns the issue of an error message.
pub(crate) fn by_words(message: &str) -> Option<IssueKind> {
    /// In order of precedence: a message about a limit often names a status too.
    const TABLE: &[(&str, IssueKind)] = &[
        ("requires a newer version", IssueKind::Outdated),
        ("or newer is required", IssueKind::Outdated),
        ("is older than the minimum version", IssueKind::Outdated),
        ("does not exist or you do not have access", IssueKind::ModelUnknown),
        ("issue with the selected model", IssueKind::ModelUnknown),
        ("is not found for api version", IssueKind::ModelUnknown),
        ("not found on provider", IssueKind::ModelUnknown),
        ("model is not supported", IssueKind::ModelUnknown),
        ("model_not_found", IssueKind::ModelUnknown),
        ("prompt is too long", IssueKind::ContextFull),
        ("the prompt as too long", IssueKind::ContextFull),
        ("context window", IssueKind::ContextFull),
        ("maximum context length", IssueKind::ContextFull),
        ("exceeds the maximum number of tokens", IssueKind::ContextFull),
        ("usage limit", IssueKind::UsageLimit),
        ("you've hit your", IssueKind::UsageLimit),
        ("daily quota", IssueKind::UsageLimit),
        // Google's limit per minute. Its message also says that the quota is exceeded, but this quota comes
        // back by itself.
        ("please retry in", IssueKind::RateLimited),
        ("quota exceeded. check your plan", IssueKind::OutOfCredit),
        ("exceeded your current quota", IssueKind::OutOfCredit),
        ("insufficient_quota", IssueKind::OutOfCredit),
        ("credits are depleted", IssueKind::OutOfCredit),
        ("credit balance", IssueKind::OutOfCredit),
        ("billing", IssueKind::OutOfCredit),
        ("api key not valid", IssueKind::AuthRequired),
        ("incorrect api key", IssueKind::AuthRequired),
        ("invalid api key", IssueKind::AuthRequired),
        ("authentication failed", IssueKind::AuthRequired),
        ("missing environment variable", IssueKind::AuthRequired),
        ("manual authorization is required", IssueKind::AuthRequired),
        ("set an auth method", IssueKind::AuthRequired),
        ("no authentication information found", IssueKind::AuthRequired),
        ("not logged in", IssueKind::AuthRequired),
        ("401 unauthorized", IssueKind::AuthRequired),
        ("403 forbidden", IssueKind::AuthRequired),
        // Below the limits of a plan and the empty accounts, which come with this status too.
        ("429", IssueKind::RateLimited),
        ("rate limit", IssueKind::RateLimited),
        ("overloaded", IssueKind::Overloaded),
        ("at capacity", IssueKind::Overloaded),
        ("high demand", IssueKind::Overloaded),
        ("try again later", IssueKind::Overloaded),
        ("internal error", IssueKind::Overloaded),
        ("server error", IssueKind::Overloaded),
        ("server had an error", IssueKind::Overloaded),
        // Last: a provider that answers can be reached.
        ("stream disconnected", IssueKind::Unreachable),
        ("connection error", IssueKind::Unreachable),
        ("unable to connect", IssueKind::Unreachable),
        ("cannot connect", IssueKind::Unreachable),
        ("could not connect", IssueKind::Unreachable),
        ("connection refused", IssueKind::Unreachable),
        ("connection reset", IssueKind::Unreachable),
        ("from connection", IssueKind::Unreachable),
        ("error sending request", IssueKind::Unreachable),
        ("network error", IssueKind::Unreachable),
        ("econn", IssueKind::Unreachable),
        ("enotfound", IssueKind::Unreachable),
        ("etimedout", IssueKind::Unreachable),
        ("fetch failed", IssueKind::Unreachable),
        ("socket", IssueKind::Unreachable),
        ("terminated", IssueKind::Unreachable),
    ];
    let lower = message.to_lowercase();
    TABLE.iter().find(|(words, _)| lower.contains(words)).map(|(_, kind)| *kind)
}

/// Returns the facts about a turn that ended in an error: the issue, if it is one, and the status.
pub(crate) fn failed_turn(kind: Option<IssueKind>, message: &str) -> Vec<Fact> {
    let issue = kind.map(|kind| Fact::Issue(Issue::new(kind, message)));
    issue.into_iter().chain([Fact::TurnCompleted, Fact::Status(Status::Error)]).collect()
}

/// Returns the facts about an answer of the model: every issue that kept it from answering is over.
pub(crate) fn answered(status: Status) -> Vec<Fact> {
    [Fact::Status(status)].into_iter().chain(cleared()).collect()
}

/// Returns the facts about an answer of the model if the agent's status is not known.
pub(crate) fn cleared() -> Vec<Fact> {
    const OVER: [IssueKind; 9] = [
        IssueKind::AuthRequired,
        IssueKind::ContextFull,
        IssueKind::ModelUnknown,
        IssueKind::OutOfCredit,
        IssueKind::Outdated,
        IssueKind::Overloaded,
        IssueKind::RateLimited,
        IssueKind::Unreachable,
        IssueKind::UsageLimit,
    ];
    OVER.map(Fact::IssueCleared).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        for (said, kind) in [
            ("You exceeded your current quota. Please retry in 1s.", IssueKind::RateLimited),
            (
                "You exceeded your current quota, please check your plan and billing details.",
                IssueKind::OutOfCredit,
            ),
            ("You have exhausted your daily quota on this model.", IssueKind::UsageLimit),
            ("You've hit your session limit · resets Jan 1, 2030, 12am (UTC)", IssueKind::UsageLimit),
            ("The 'gpt-9' model requires a newer version of Codex. Please upgrade.", IssueKind::Outdated),
            (
                "Claude Code 2.1.330 does not support this model; version 2.2.0 or newer is required",
                IssueKind::Outdated,
            ),
            ("API Error: Connection refused — a firewall or proxy (ECONNREFUSED)", IssueKind::Unreachable),
            ("ERROR: Missing environment variable: `KEY`.", IssueKind::AuthRequired),
            ("Please set an Auth method in your settings.json", IssueKind::AuthRequired),
            ("Error: No authentication information found.", IssueKind::AuthRequired),
            ("Not logged in · Please run /login", IssueKind::AuthRequired),
            ("retried 5 times. Last error: 429 Too Many Requests", IssueKind::RateLimited),
        ] {
            assert_eq!(by_words(said), Some(kind), "{said}");
        }
    }
}
