//! Adds the measuring environment (processor, kernel, build, warnings) to reports in the format of
//! other tools: netperf, iperf3, netrate, rump2014's testtool, and the load generators.
//!
//! Other programs parse standard output, so its lines stay as those tools print them. With a text
//! report, [`show`] writes the environment to standard error after it. In a JSON report, [`add_to`]
//! inserts the environment under keys of its own.

use crate::exit::{Exit, print};
use anyhow::Context;
use lab::env::Environment;
use lab::measuring::Measuring;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Lines of text in the tool's own format.
    Text,
    /// JSON objects.
    Json,
}

impl Form {
    /// Returns the form that a `--json` flag selects.
    pub fn of(json: bool) -> Form {
        if json { Form::Json } else { Form::Text }
    }
}

/// Runs `measure` while holding the lock that detects concurrent measurements. `measure` writes its
/// report to its argument, which goes to standard output. The environment is added to a JSON
/// report; after a text report it is written to standard error.
///
/// # Errors
/// Those of `measure` and of standard output.
pub fn measured(form: Form, measure: impl FnOnce(&mut dyn Write) -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    let (_measuring, env) = Measuring::begin();
    if form == Form::Json {
        let mut out = Vec::new();
        let exit = measure(&mut out)?;
        for report in add_to(&String::from_utf8(out)?, &env, None)? {
            print(&format!("{report}\n"))?;
        }
        return Ok(exit);
    }
    let mut out = Watched { out: io::stdout(), wrote: false };
    let exit = measure(&mut out)?;
    if out.wrote {
        show(&env);
    }
    Ok(exit)
}

/// Standard output, with a flag that is set by any write. If a command needs a namespace of its
/// own, a child process prints the report and the environment, and this process writes nothing.
struct Watched {
    out: io::Stdout,
    wrote: bool,
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wrote = true;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the environment to standard error; ignores a write error.
pub fn show(env: &Environment) {
    let _ = write!(io::stderr(), "\n{env}");
}

/// Builds the JSON keys `env` and `warnings`, as in this program's own reports.
fn keys(env: &Environment) -> anyhow::Result<Map<String, Value>> {
    let mut keys = Map::new();
    keys.insert("env".to_owned(), serde_json::to_value(env)?);
    keys.insert("warnings".to_owned(), env.warnings().into());
    Ok(keys)
}

/// Adds the environment to each JSON object in `text`; other JSON values stay unchanged. If `under`
/// is given, adds a single key of that name with the environment below it, for reports in another
/// program's format.
///
/// # Errors
/// `text` is not JSON.
pub fn add_to(text: &str, env: &Environment, under: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let mut keys = keys(env)?;
    if let Some(under) = under {
        keys = Map::from_iter([(under.to_owned(), Value::Object(keys))]);
    }
    let add = |value: serde_json::Result<Value>| {
        let mut value = value.context("a report is not JSON")?;
        if let Some(object) = value.as_object_mut() {
            object.extend(keys.clone());
        }
        Ok(value)
    };
    serde_json::Deserializer::from_str(text).into_iter::<Value>().map(add).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_get_keys_and_keep_their_own() {
        let env = Environment::detect();
        let with = add_to("{\"figure\": 1}\n{\"end\": {}}\n", &env, None).unwrap();
        assert_eq!((with.len(), &with[0]["figure"], &with[0]["env"]["cores"]), (2, &1.into(), &env.cores.into()));
        assert_eq!(with[1]["warnings"].as_array().unwrap().len(), env.warnings().len());
        let with = add_to("{\"start\": {}}", &env, Some("linerate")).unwrap();
        let names: Vec<&String> = with[0].as_object().unwrap().keys().collect();
        assert_eq!(names, ["linerate", "start"]);
        assert_eq!(with[0]["linerate"]["env"]["kernel"], env.kernel.as_str());
        assert!(add_to("iperf3: error", &env, None).is_err() && add_to("", &env, None).unwrap().is_empty());
    }
}
