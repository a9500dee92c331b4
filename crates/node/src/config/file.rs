//! Reads a TOML file of `[[host]]`, `[[switch]]` and `[metrics]` tables; error messages include the
//! line number.

use super::keys::{self, Item, Key, set_key};
use super::page;
use super::{
    ConfigError, HostConfig, IfaceConfig, MetricsConfig, NeighborConfig, Network, RouteConfig, ServiceConfig,
    ServiceKind, SwitchFile,
};
use crate::topology::{LinkError, Topology};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wire::{L4Port, Mac};

/// Maximum number of hosts and switches in a file. Each stack of a host counts as one host, because
/// it has its own thread.
pub const HOSTS_MAX: usize = 48;
/// Maximum file size in bytes.
const FILE_MAX: u64 = 4 << 20;

/// Reads the hosts of the file at `path`.
///
/// # Errors
/// Returns a [`ConfigError`].
pub fn load(path: &Path) -> Result<Vec<HostConfig>, ConfigError> {
    read(&text_of(path)?, &path.display().to_string())
}

/// Reads the hosts and switches of the file at `path`.
///
/// # Errors
/// Returns a [`ConfigError`].
pub fn load_network(path: &Path) -> Result<Network, ConfigError> {
    read_network(&text_of(path)?, &path.display().to_string())
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    let file = path.display().to_string();
    let failed = |what: String| ConfigError { file: file.clone(), line: 0, what };
    port::os::read_text(path, FILE_MAX).map_err(|error| failed(error.to_string()))
}

/// Parses `text`, which may contain hosts, but no switches. Metrics are checked and ignored. `file`
/// is the name of the file in error messages.
///
/// # Errors
/// Returns the first [`ConfigError`].
pub fn read(text: &str, file: &str) -> Result<Vec<HostConfig>, ConfigError> {
    let Network { hosts, switches, .. } = read_network(text, file)?;
    match switches.first() {
        None => Ok(hosts),
        Some(switch) => {
            let what = format!("switch {}: switches are not supported here; use 'linerate up'", switch.name);
            Err(ConfigError { file: file.to_string(), line: 0, what })
        }
    }
}

/// Parses `text`, which may contain hosts, switches and metrics. `file` is the name of the file in
/// error messages.
///
/// # Errors
/// Returns the first [`ConfigError`].
pub fn read_network(text: &str, file: &str) -> Result<Network, ConfigError> {
    let source = Source { text, file };
    let parsed = DeTable::parse(text).map_err(|error| {
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        source.error(error.span(), format!("invalid TOML: {what}"))
    })?;
    let (mut hosts, mut switches): (Vec<HostConfig>, Vec<SwitchFile>) = Default::default();
    let mut metrics = MetricsConfig::default();
    let mut spans: Vec<(String, Range<usize>)> = Vec::new();
    for (key, value) in parsed.get_ref() {
        if key.get_ref() == "switch" {
            for (table, span) in source.tables(value, "switch")? {
                let switch = source.switch(table, switches.len())?;
                switch.check().map_err(|what| source.error(Some(span.clone()), what))?;
                spans.push((switch.name.clone(), span));
                switches.push(switch);
            }
            continue;
        }
        if key.get_ref() == "metrics" {
            metrics = source.metrics(value)?;
            continue;
        }
        if key.get_ref() != "host" {
            return Err(source.error(Some(key.span()), keys::unknown(key.get_ref(), page::TOP.into_iter())));
        }
        for (table, span) in source.tables(value, "host")? {
            let host = source.host(table, hosts.len())?;
            let clash = hosts.iter().any(|other| have_same_name(other, &host));
            let fault = if clash { Err(format!("there are two hosts called '{}'", host.name)) } else { host.check() };
            fault.map_err(|what| source.error(Some(span.clone()), what))?;
            if hosts.iter().map(|host| host.stacks).sum::<usize>() + host.stacks > HOSTS_MAX {
                return Err(source.error(Some(span), format!("more than {HOSTS_MAX} hosts, counting each stack")));
            }
            spans.push((host.name.clone(), span));
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        return Err(source.error(None, "no [[host]] table".to_string()));
    }
    let span = |name: &str| spans.iter().find(|(whose, _)| whose == name).map(|(_, span)| span.clone());
    let names = hosts.iter().map(|host| &host.name).chain(switches.iter().map(|switch| &switch.name));
    for (at, switch) in switches.iter().enumerate() {
        if names.clone().take(hosts.len() + at).any(|name| *name == switch.name) {
            let last = spans.iter().rfind(|(name, _)| *name == switch.name).map(|(_, span)| span.clone());
            return Err(source.error(last, format!("there are two nodes called '{}'", switch.name)));
        }
    }
    if hosts.iter().map(|host| host.stacks).sum::<usize>() + switches.len() > HOSTS_MAX {
        let last = switches.last().and_then(|switch| span(&switch.name));
        return Err(source.error(last, format!("more than {HOSTS_MAX} hosts and switches")));
    }
    let network = Network { hosts, switches, metrics };
    Topology::of_network(&network).check().map_err(|why| source.link_error(span(why.place().0), &why))?;
    Ok(network)
}

/// Returns whether both hosts have the same name, or the name of one host is also the name of a
/// stack of the other (`web.0`).
fn have_same_name(one: &HostConfig, other: &HostConfig) -> bool {
    let is_stack_of = |name: &str, host: &HostConfig| {
        let number = name.strip_prefix(&host.name).and_then(|rest| rest.strip_prefix('.')).map(str::parse::<usize>);
        host.stacks > 1 && matches!(number, Some(Ok(at)) if at < host.stacks)
    };
    one.name == other.name || is_stack_of(&one.name, other) || is_stack_of(&other.name, one)
}

/// Text and name of the file, used to compute the line number of an error.
struct Source<'a> {
    text: &'a str,
    file: &'a str,
}

impl Source<'_> {
    fn error(&self, span: Option<Range<usize>>, what: String) -> ConfigError {
        let before = span.and_then(|span| self.text.as_bytes().get(..span.start));
        let line = before.map_or(0, |before| before.iter().filter(|b| **b == b'\n').count() + 1);
        ConfigError { file: self.file.to_string(), line, what }
    }

    /// Returns an error about a link, with the line of the faulty port or, if it is not found, of
    /// its host.
    fn link_error(&self, host: Option<Range<usize>>, why: &LinkError) -> ConfigError {
        let (_, port) = why.place();
        let port = host.clone().and_then(|host| {
            let text = self.text.get(host.start..)?;
            // The quoted name is searched first, because another port's name may begin with this
            // name.
            let quoted = ['"', '\''].iter().find_map(|quote| text.find(&format!("{quote}{port}{quote}")));
            let at = host.start + quoted.map(|at| at + 1).or_else(|| text.find(port))?;
            Some(at..at + port.len())
        });
        self.error(port.or(host), why.to_string())
    }

    /// Returns the tables of `[[name]]`; a single `[name]` is accepted too.
    fn tables<'v, 'i>(
        &self,
        value: &'v Spanned<DeValue<'i>>,
        name: &str,
    ) -> Result<Vec<(&'v DeTable<'i>, Range<usize>)>, ConfigError> {
        let expected = || format!("{name}: expected [[{name}]] tables");
        match value.get_ref() {
            DeValue::Table(table) => Ok(vec![(table, value.span())]),
            DeValue::Array(array) => {
                let each = array.iter().map(|item| match item.get_ref() {
                    DeValue::Table(table) => Ok((table, item.span())),
                    _ => Err(self.error(Some(item.span()), expected())),
                });
                each.collect()
            }
            _ => Err(self.error(Some(value.span()), expected())),
        }
    }

    fn metrics(&self, value: &Spanned<DeValue<'_>>) -> Result<MetricsConfig, ConfigError> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(Some(value.span()), "metrics: expected a table".to_string()));
        };
        let mut metrics = MetricsConfig::default();
        for (key, value) in table {
            self.set(keys::METRICS, &mut metrics, key.get_ref(), key, value)?;
        }
        Ok(metrics)
    }

    fn switch(&self, table: &DeTable<'_>, n: usize) -> Result<SwitchFile, ConfigError> {
        let mut switch = SwitchFile { name: format!("switch{n}"), ..SwitchFile::default() };
        for (key, value) in table {
            self.set(keys::SWITCH, &mut switch, key.get_ref(), key, value)?;
        }
        Ok(switch)
    }

    fn host(&self, table: &DeTable<'_>, n: usize) -> Result<HostConfig, ConfigError> {
        let mut host = HostConfig { name: format!("host{n}"), ..HostConfig::default() };
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("iface", _) => host.ifaces = self.list(value, "host.iface", keys::IFACE, IfaceConfig::default)?,
                ("route", _) => host.routes = self.routes(value)?,
                ("neighbor", _) => host.neighbors = self.neighbors(value)?,
                ("service", _) => host.services = self.services(value)?,
                ("sysctl", DeValue::Table(sysctls)) => self.sysctls(sysctls, "", &mut host)?,
                (group @ ("fpm" | "isr" | "mirror" | "pool"), DeValue::Table(keys)) => {
                    for (key, value) in keys {
                        let name = format!("{group}.{}", key.get_ref());
                        self.set(keys::HOST, &mut host, &name, key, value)?;
                    }
                }
                ("fpm" | "isr" | "mirror" | "pool" | "sysctl", _) => {
                    let what = format!("{}: expected a table", key.get_ref());
                    return Err(self.error(Some(value.span()), what));
                }
                (name, _) if keys::HOST.iter().any(|key| key.name == name) => {
                    self.set(keys::HOST, &mut host, name, key, value)?;
                }
                (name, _) => {
                    let own = keys::HOST.iter().map(|key| key.name).filter(|name| !name.contains('.'));
                    let tables = page::TABLES.iter().filter_map(|table| table.name.strip_prefix("host."));
                    let all = own.chain(["fpm", "isr", "mirror", "pool"]).chain(tables);
                    return Err(self.error(Some(key.span()), keys::unknown(name, all)));
                }
            }
        }
        Ok(host)
    }

    fn set<T>(
        &self,
        known: &[Key<T>],
        into: &mut T,
        name: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let exists = known.iter().any(|key| key.name == name);
        let span = if exists { value.span() } else { key.span() };
        set_key(known, into, name, &item(value.get_ref())).map_err(|what| self.error(Some(span), what))
    }

    /// Reads a list of tables whose valid keys are `known`.
    fn list<T>(
        &self,
        value: &Spanned<DeValue<'_>>,
        name: &str,
        known: &[Key<T>],
        make: fn() -> T,
    ) -> Result<Vec<T>, ConfigError> {
        let mut out = Vec::new();
        for (table, _) in self.tables(value, name)? {
            let mut one = make();
            for (key, value) in table {
                self.set(known, &mut one, key.get_ref(), key, value)?;
            }
            out.push(one);
        }
        Ok(out)
    }

    fn routes(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<RouteConfig>, ConfigError> {
        for (table, span) in self.tables(value, "host.route")? {
            if !table.contains_key("to") || !(table.contains_key("via") || table.contains_key("dev")) {
                return Err(self.error(Some(span), "a route needs 'to', and 'via' or 'dev'".to_string()));
            }
        }
        self.list(value, "host.route", keys::ROUTE, RouteConfig::default)
    }

    fn neighbors(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<NeighborConfig>, ConfigError> {
        let found = self.list(value, "host.neighbor", keys::NEIGHBOR, NeighborConfig::default)?;
        if found.iter().any(|n| n.addr.is_unspecified() || n.mac == Mac::ZERO) {
            return Err(self.error(Some(value.span()), "a neighbor needs 'addr' and 'mac'".to_string()));
        }
        Ok(found)
    }

    fn services(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<ServiceConfig>, ConfigError> {
        for (table, span) in self.tables(value, "host.service")? {
            if !table.contains_key("kind") {
                return Err(self.error(Some(span), "a service needs 'kind'".to_string()));
            }
        }
        let none = || ServiceConfig { kind: ServiceKind::default(), port: L4Port(0) };
        let mut found = self.list(value, "host.service", keys::SERVICE, none)?;
        for service in found.iter_mut().filter(|service| service.port == L4Port(0)) {
            service.port = service.kind.usual_port();
        }
        Ok(found)
    }

    /// Reads sysctls such as `"net.inet.ip.forwarding" = 1`. Without the quotes, TOML parses the
    /// name as nested tables, which are accepted too.
    fn sysctls(&self, table: &DeTable<'_>, above: &str, host: &mut HostConfig) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = if above.is_empty() { key.get_ref().to_string() } else { format!("{above}.{}", key.get_ref()) };
            if let DeValue::Table(below) = value.get_ref() {
                self.sysctls(below, &name, host)?;
            } else {
                let set = host.set_sysctl(&name, &item(value.get_ref()));
                set.map_err(|what| self.error(Some(key.span()), what))?;
            }
        }
        Ok(())
    }
}

fn item(value: &DeValue<'_>) -> Item {
    match value {
        DeValue::String(text) => Item::Text(text.to_string()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Item::Number(n),
            Err(_) => Item::Other("an integer over 64 bits"),
        },
        DeValue::Boolean(b) => Item::Bool(*b),
        DeValue::Array(items) => Item::List(items.iter().map(|one| item(one.get_ref())).collect()),
        DeValue::Float(_) => Item::Other("a float"),
        DeValue::Datetime(_) => Item::Other("a date"),
        DeValue::Table(_) => Item::Other("a table"),
    }
}
