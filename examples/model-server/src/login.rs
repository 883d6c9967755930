//! Issues logins that must be renewed: each refresh token works once, and each renewal ends the access token before
//! it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// One login of a series: the tokens that were issued together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Login {
    /// Place in the series.
    pub number: u32,
}

impl Login {
    /// The first login, whose access token has expired: an agent that has it must renew it.
    pub const EXPIRED: Self = Self { number: 0 };

    /// Returns the access token, a JSON Web Token without a signature. All but the first expire in 2100.
    #[must_use]
    pub fn access(self) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        // In 2001 and in 2100.
        let expires: i64 = if self == Self::EXPIRED { 1_000_000_000 } else { 4_102_444_800 };
        let account =
            json!({ "chatgpt_account_id": "account", "chatgpt_plan_type": "pro", "chatgpt_user_id": "user" });
        let claims = json!({
            // `jti` makes the tokens differ, so that an old one is recognized.
            "exp": expires, "jti": self.number.to_string(), "email": "agent@example.org",
            "https://api.openai.com/auth": account,
        });
        format!(
            "{}.{}.{}",
            part(json!({ "alg": "none", "typ": "JWT" })),
            part(claims),
            URL_SAFE_NO_PAD.encode("none")
        )
    }

    /// Returns the refresh token, which renews this login once.
    #[must_use]
    pub fn refresh(self) -> String {
        format!("refresh-{}", self.number)
    }

    /// Answers a request for a renewal with the next login. Returns `None` for every refresh token but the last.
    pub(crate) fn renewed(self, body: &[u8]) -> Option<(Self, Value)> {
        let asked = String::from_utf8_lossy(body);
        // Some agents send JSON, others a form, as OAuth describes it.
        let token = match serde_json::from_slice::<Value>(body) {
            Ok(body) => body.get("refresh_token").and_then(Value::as_str).map(str::to_owned),
            Err(_) => {
                asked.split('&').find_map(|pair| pair.strip_prefix("refresh_token=")).map(str::to_owned)
            }
        };
        let next = Self { number: self.number + 1 };
        (token? == self.refresh()).then(|| {
            let answer = json!({
                "access_token": next.access(), "id_token": next.access(), "refresh_token": next.refresh(),
                "token_type": "Bearer", "expires_in": 3600, "scope": "user:inference user:profile",
            });
            (next, answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_token_works_once() {
        let first = Login::EXPIRED;
        let (second, answer) = first.renewed(br#"{"refresh_token":"refresh-0"}"#).unwrap();
        assert_eq!(answer["refresh_token"], "refresh-1");
        assert_ne!(first.access(), second.access());
        assert!(second.renewed(b"grant_type=refresh_token&refresh_token=refresh-0").is_none());
        assert_eq!(second.renewed(b"grant_type=refresh_token&refresh_token=refresh-1").unwrap().0.number, 2);
        assert!(second.renewed(b"").is_none());
    }
}
