//! Amounts of money.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount in US dollars, exact to a millionth.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Dollars {
    micros: u64,
}

impl Dollars {
    /// Creates an amount from millionths.
    #[must_use]
    pub fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// Returns the millionths.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.micros
    }
}

/// Writes whole cents, rounded up from half a cent: `$5.00`. Amounts below a dollar have four digits: `$0.0246`.
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.micros / 1_000_000, self.micros % 1_000_000);
        match (whole, part) {
            (0, 1..) => write!(f, "$0.{:04}", part / 100),
            _ => {
                let cents = self.micros.saturating_add(5_000) / 10_000;
                write!(f, "${}.{:02}", cents / 100, cents % 100)
            }
        }
    }
}

impl Serialize for Dollars {
    #[expect(clippy::cast_precision_loss, reason = "exact up to nine thousand million dollars")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.micros as f64 / 1e6)
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Up to this amount an `f64` can tell neighbouring millionths apart.
        const LARGEST: f64 = 1e9;
        let amount = f64::deserialize(deserializer)?;
        // Rejects a NaN, too, which no range contains.
        if !(0.0..=LARGEST).contains(&amount) {
            return Err(D::Error::custom(format_args!(
                "expected an amount of US dollars such as 5.00, found {amount}"
            )));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just above")]
        let micros = (amount * 1e6).round() as u64;
        Ok(Self { micros })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_bounded() {
        let read = |text: &str| serde_json::from_str::<Dollars>(text);
        assert_eq!(read("5").unwrap(), Dollars::from_micros(5_000_000));
        assert_eq!(read("0.1").unwrap().micros(), 100_000);
        assert!(read("-1").is_err() && read("1e300").is_err() && read("\"5\"").is_err());
        assert_eq!(serde_json::to_string(&read("5.25").unwrap()).unwrap(), "5.25");
    }

    #[test]
    fn people_read_cents_or_less() {
        let shown = |micros| Dollars::from_micros(micros).to_string();
        assert_eq!([0, 24_699, 5_000_000, 5_994_999].map(shown), ["$0.00", "$0.0246", "$5.00", "$5.99"]);
    }
}
