//! Writes errors in each provider's own format, with the words and headers that agents look at.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::Api;

/// The kind of error that the server answers with.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// 401: the key or token is wrong.
    Unauthorized,
    /// 403: the account has no permission.
    Forbidden,
    /// 429: too many requests or tokens a minute.
    RateLimit,
    /// 429: the plan's limit is used up until [`RESETS_AT`].
    UsageLimit,
    /// The account has no money left. The status differs: 400 at Anthropic, 429 at OpenAI and Google.
    NoCredit,
    /// 500.
    ServerError,
    /// 529 or 503: overloaded.
    Overloaded,
    /// 404: there is no such model.
    UnknownModel,
    /// 400: the conversation is longer than the model's context.
    ContextFull,
    /// 400: the agent's version is too old for the model.
    Outdated,
}

/// Time at which a used-up limit resets, in seconds since 1970: 2030-01-01T00:00:00Z.
pub const RESETS_AT: i64 = 1_893_456_000;

/// Status, headers and body of an error.
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

impl Fault {
    pub(crate) fn answer(self, api: Api) -> Failure {
        match api {
            Api::Anthropic => self.anthropic(),
            Api::Chat | Api::Responses => self.openai(),
            Api::Gemini => self.gemini(),
        }
    }

    fn anthropic(self) -> Failure {
        let (status, kind, message) = match self {
            Self::Unauthorized => (401, "authentication_error", "invalid x-api-key"),
            Self::Forbidden => (
                403,
                "permission_error",
                "Your API key does not have permission to use the specified resource",
            ),
            Self::RateLimit => (
                429,
                "rate_limit_error",
                "This request would exceed your organization's rate limit of 30,000 input tokens per minute. Please try again later.",
            ),
            Self::UsageLimit => (
                429,
                "rate_limit_error",
                "This request would exceed your account's rate limit. Please try again later.",
            ),
            Self::NoCredit => (
                400,
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
            ),
            Self::ServerError => (500, "api_error", "Internal server error"),
            Self::Overloaded => (529, "overloaded_error", "Overloaded"),
            Self::UnknownModel => (404, "not_found_error", "model: fake-model"),
            Self::ContextFull => {
                (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
            }
            Self::Outdated => (
                400,
                "invalid_request_error",
                "Claude Code 0.0.1 does not support this model; version 99.0.0 or newer is required",
            ),
        };
        let mut headers = Vec::new();
        match self {
            // One second, so that an agent that retries is soon answered.
            Self::RateLimit => headers.push(("retry-after", "1".into())),
            // The headers make the difference: status and type are those of too many requests.
            Self::UsageLimit => headers.extend([
                ("anthropic-ratelimit-unified-status", "rejected".into()),
                ("anthropic-ratelimit-unified-reset", RESETS_AT.to_string()),
                ("anthropic-ratelimit-unified-representative-claim", "five_hour".into()),
                ("anthropic-ratelimit-unified-fallback", "unavailable".into()),
                ("x-should-retry", "false".into()),
            ]),
            _ => {}
        }
        Failure {
            status,
            headers,
            body: json!({ "type": "error", "error": { "type": kind, "message": message } }),
        }
    }

    fn openai(self) -> Failure {
        let (status, error) = match self {
            Self::Unauthorized => (
                401,
                json!({ "message": "Incorrect API key provided: fake-key.", "type": "invalid_request_error", "code": "invalid_api_key" }),
            ),
            Self::Forbidden => (
                403,
                json!({ "message": "You do not have access to this model.", "type": "permission_error" }),
            ),
            Self::RateLimit => (
                429,
                json!({ "message": "Rate limit reached on tokens per min (TPM). Please try again in 1s.", "type": "tokens", "code": "rate_limit_exceeded" }),
            ),
            Self::UsageLimit => (
                429,
                json!({ "message": "The usage limit has been reached", "type": "usage_limit_reached", "plan_type": "plus", "resets_at": RESETS_AT }),
            ),
            Self::NoCredit => (
                429,
                json!({ "message": "You exceeded your current quota, please check your plan and billing details.", "type": "insufficient_quota", "code": "insufficient_quota" }),
            ),
            Self::ServerError => (
                500,
                json!({ "message": "The server had an error while processing your request.", "type": "server_error" }),
            ),
            Self::Overloaded => (
                503,
                json!({ "message": "The engine is currently overloaded, please try again later.", "type": "server_error", "code": "server_is_overloaded" }),
            ),
            Self::UnknownModel => (
                404,
                json!({ "message": "The model `fake-model` does not exist or you do not have access to it.", "type": "invalid_request_error", "code": "model_not_found" }),
            ),
            Self::ContextFull => (
                400,
                json!({ "message": "Your input exceeds the context window of this model. Please adjust your input and try again.", "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded" }),
            ),
            Self::Outdated => (
                400,
                json!({ "message": "The 'fake-model' model requires a newer version of Codex. Please upgrade to the latest app or CLI and try again.", "type": "invalid_request_error" }),
            ),
        };
        let headers = if self == Self::RateLimit { vec![("retry-after", "1".into())] } else { Vec::new() };
        Failure { status, headers, body: json!({ "error": error }) }
    }

    fn gemini(self) -> Failure {
        let info = |reason: &str| json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com" }]);
        // Google's limits have one status. The id of the quota and the delay make the difference.
        let quota = |id: &str, retry: Option<&str>| {
            let mut details = vec![json!({
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{ "quotaId": id }],
            })];
            details.extend(retry.map(
                |delay| json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay }),
            ));
            Value::from(details)
        };
        let (code, status, message, details) = match self {
            Self::Unauthorized => (
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                info("API_KEY_INVALID"),
            ),
            Self::Forbidden => (403, "PERMISSION_DENIED", "The caller does not have permission", json!([])),
            Self::RateLimit => (
                429,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota. Please retry in 1s.",
                quota("GenerateContentPaidTierInputTokensPerModelPerMinute", Some("1s")),
            ),
            Self::UsageLimit => (
                429,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
                quota("GenerateRequestsPerDayPerProjectPerModel", None),
            ),
            Self::NoCredit => (
                429,
                "RESOURCE_EXHAUSTED",
                "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing.",
                json!([]),
            ),
            Self::ServerError => (500, "INTERNAL", "An internal error has occurred.", json!([])),
            Self::Overloaded => {
                (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", json!([]))
            }
            Self::UnknownModel => (
                404,
                "NOT_FOUND",
                "models/fake-model is not found for API version v1beta, or is not supported for generateContent.",
                json!([]),
            ),
            Self::ContextFull => (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                json!([]),
            ),
            // No such error of Google's is known.
            Self::Outdated => {
                (400, "FAILED_PRECONDITION", "This model requires a newer version of Gemini CLI.", json!([]))
            }
        };
        let body =
            json!({ "error": { "code": code, "message": message, "status": status, "details": details } });
        Failure { status: code, headers: Vec::new(), body }
    }
}
