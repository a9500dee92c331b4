//! `ftpd`, `httpd` and `serve`: run a host from flags with one application on its sockets. Also
//! used by [`crate::iperf3`].

use crate::args::{FilesArgs, HostArgs, ServeArgs, ServedArgs, SmallKind, UploadsArg};
use crate::exit::{Exit, Fault, notice};
use crate::hosts::{self, Audits};
use crate::ready::Ready;
use anyhow::Context;
use apps::app::App;
use apps::date::Wall;
use apps::files::{Root, Uploads};
use apps::slots::Limits;
use apps::{ftp, http, small};
use node::config::{HostConfig, MetricsConfig};
use node::run::Outcome;
use programs::{Role, RunError, everywhere};
use std::ffi::OsString;
use std::net::SocketAddr;

/// Maximum size of an uploaded file, so that a client cannot fill the disk with one.
const UPLOAD_MAX: u64 = 4 << 30;
/// Buffers of the host's pool unless --set pool.buffers is given. Sent data stays in buffers until
/// it is acknowledged. A few bidirectional streams would use up the 4096 of a host's default pool,
/// so that acknowledgments could no longer be received.
const BUFFERS: usize = 65_536;
/// Frames taken from a port at a time unless --set burst is given. Between two such bursts, streams
/// send what their windows allow; the kernel acknowledges every second frame and drops those beyond
/// its device queue of 1000.
const BURST: usize = 256;

/// Runs `ftpd`.
pub fn ftpd(args: &FilesArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let root = root(args)?;
    let config = ftp::Config::new(root);
    let limits = args.limits.or_at_most(config.sessions_max, config.sessions_per_peer);
    let (sessions_max, sessions_per_peer) = (limits.most, limits.per_peer);
    let app = |wall| ftp::Ftp::new(ftp::Config { wall, sessions_max, sessions_per_peer, ..config });
    run(&args.served, words, 21, app, |_| Ok(false))
}

/// Runs `httpd`.
pub fn httpd(args: &FilesArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    if args.uploads.is_some() {
        return Err(Fault::usage("--uploads: not supported over HTTP; use 'linerate ftpd'"));
    }
    let root = root(args)?;
    let config = http::Config::new(root);
    let Limits { most: conns_max, per_peer: conns_per_peer } = args.limits.or(config.conns_max);
    let app = |wall| http::Http::new(http::Config { wall: Some(wall), conns_max, conns_per_peer, ..config });
    run(&args.served, words, 80, app, |_| Ok(false))
}

/// Runs `serve KIND`.
pub fn small(args: &ServeArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let (kind, port) = match args.kind {
        SmallKind::Echo => (small::Kind::Echo, 7),
        SmallKind::Discard => (small::Kind::Discard, 9),
        SmallKind::Chargen => (small::Kind::Chargen, 19),
        SmallKind::Sink => (small::Kind::Sink, 9),
    };
    let config = small::Config::new(kind);
    let Limits { most: conns_max, per_peer: conns_per_peer } = args.limits.or(config.conns_max);
    let config = small::Config { conns_max, conns_per_peer, ..config };
    run(&args.served, words, port, |_| small::Small::new(config), |_| Ok(false))
}

fn root(args: &FilesArgs) -> anyhow::Result<Root> {
    let Some(dir) = &args.root else { return Ok(Root::devices()) };
    let uploads = match args.uploads {
        None => Uploads::Refused,
        Some(UploadsArg::New) => Uploads::New,
        Some(UploadsArg::Replace) => Uploads::Replace,
    };
    let root = Root::devices().with_directory(dir, uploads, UPLOAD_MAX);
    root.with_context(|| format!("--root {}", dir.display())).map_err(|why| Fault::usage(format!("{why:#}")))
}

/// Runs an application at a port until Ctrl-C, or until `turned`, called after each turn, returns
/// `true`; then prints the audit.
pub fn run<A: App>(
    args: &ServedArgs,
    words: &[OsString],
    port: u16,
    app: impl FnOnce(Wall) -> A,
    turned: impl FnMut(&mut A) -> anyhow::Result<bool>,
) -> anyhow::Result<Exit> {
    let at = everywhere(args.listen.unwrap_or(port));
    let (_, outcome, audits) = run_as(args, words, Role::Server(&[at]), |wall, _| app(wall), turned)?;
    hosts::report(&[outcome], audits)
}

/// Sets the buffers and the burst of a host that sends streams, unless --set has them.
pub fn for_streams(config: &mut HostConfig, args: &HostArgs) {
    let is_set = |name: &str| args.set.iter().any(|(key, _)| key == name);
    if !is_set("pool.buffers") {
        config.pool_buffers = BUFFERS;
    }
    if !is_set("burst") {
        config.burst = BURST;
    }
}

/// Runs an application as [`run`] does, but with a given role and without printing the audit.
/// Returns the application in its final state, the host's audit and the audit's destination.
pub fn run_as<A: App>(
    args: &ServedArgs,
    words: &[OsString],
    role: Role<'_>,
    app: impl FnOnce(Wall, Option<SocketAddr>) -> A,
    mut turned: impl FnMut(&mut A) -> anyhow::Result<bool>,
) -> anyhow::Result<(A, Outcome, Audits)> {
    let mut config = hosts::from_flags(&args.host, words).map_err(Fault::usage)?;
    if let Some(gateway) = args.gateway {
        config.set_route(&format!("default,{gateway}")).map_err(Fault::usage)?;
        config.check().map_err(Fault::usage)?;
    }
    for_streams(&mut config, &args.host);
    if config.ifaces.is_empty() && config.control.is_none() {
        let name = &config.name;
        notice(&format!("{name}: no port, host is unreachable: add one, as in --port tap:tap0 --addr 10.0.0.2/24"));
    }
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut ready = Ready::new(args.host.ready_fd, 1)?;
    let mut metrics = args.metrics.bind(&MetricsConfig::default())?;
    let collector = metrics.collector.clone();
    let mut failed = None;
    let mut is_enough = |app: &mut A| {
        turned(app).unwrap_or_else(|why| {
            failed = Some(why);
            dispatch::request_stop();
            true
        })
    };
    let sandbox = args.sandbox.with_control(config.control.is_some());
    let mut each = |event: &_| hosts::print_event_and_serve(event, &mut ready, &mut metrics);
    let ended = programs::run_as(&config, role, collector.as_deref(), &sandbox, app, &mut each, &mut is_enough);
    drop(metrics);
    let mut ended = ended.map_err(|why| match why {
        RunError::Build(node::run::BuildError::Config(_)) => Fault::usage(why),
        RunError::Build(named) => named.into(), // the error contains the name of the host
        other => anyhow::Error::from(other).context(config.name.clone()),
    })?;
    if let Some(why) = failed {
        return Err(why);
    }
    turned(&mut ended.app)?; // collects the output of the end
    Ok((ended.app, ended.outcome, Audits::beside(&[config])))
}
