//! A host whose rates are shown.

use super::rates::{History, Rates, Reading};
use node::control;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Maximum time to wait for a host's reply. Hosts normally reply within milliseconds; a host that
/// does not is shown with the error.
const PATIENCE: Duration = Duration::from_secs(2);
/// A host that is watched, with its last counters.
pub(super) struct Watched {
    pub(super) url: String,
    pub(super) name: String,
    pub(super) last: Option<Reading>,
    pub(super) rates: Option<Rates>,
    pub(super) history: History,
    pub(super) trouble: Option<String>,
}

impl Watched {
    pub(super) fn new(url: &str) -> Watched {
        let name = std::path::Path::new(url).file_stem().map_or(url.into(), |stem| stem.to_string_lossy().into_owned());
        let (last, rates, history, trouble) = (None, None, History::default(), None);
        Watched { url: url.to_owned(), name, last, rates, history, trouble }
    }

    pub(super) fn ask(&self, words: &str) -> Result<String, String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        match control::request(&self.url, &words, true, PATIENCE) {
            Ok(answer) if answer.ok => Ok(answer.text),
            Ok(answer) => Err(answer.text.trim_end().to_owned()),
            Err(why) => Err(why.to_string()),
        }
    }

    pub(super) fn value(&self, words: &str) -> Result<Value, String> {
        let text = self.ask(words)?;
        serde_json::from_str(&text).map_err(|why| format!("{words}: not JSON: {why}"))
    }

    /// Reads the host's counters. Returns whether it replied.
    pub(super) fn look(&mut self) -> bool {
        let answers = || -> Result<Reading, String> {
            let of = ["show ports", "show drops", "show ledger", "show pools", "show isr"];
            let [ports, drops, ledger, pools, isr] = of.map(|words| self.value(words));
            // A bridge has no netisr workstreams and rejects `show isr`.
            Ok(Reading::of(Instant::now(), [ports?, drops?, ledger?, isr.unwrap_or_default(), pools?]))
        };
        match answers() {
            Ok(now) => {
                self.rates = self.last.as_ref().map(|last| Rates::between(last, &now));
                if let Some(rates) = &self.rates {
                    self.history.add(rates);
                }
                self.last = Some(now);
                self.trouble = None;
                true
            }
            Err(why) => {
                (self.rates, self.trouble) = (None, Some(why));
                false
            }
        }
    }

    pub(super) fn set_ledger(&self, on: bool) {
        // If the host does not reply, the next reading reports it.
        let _ = self.ask(if on { "show ledger on" } else { "show ledger off" });
    }

    pub(super) fn has_ledger(&self) -> bool {
        self.rates.as_ref().is_some_and(|rates| !rates.stages.is_empty())
    }
}
