//! `--metrics`, declared once for all commands that run hosts or bridges, and the server of a
//! process's metrics.

use crate::exit::notice;
use anyhow::Context;
use clap::Args;
use metrics::{Bound, Server};
use node::config::{MetricsAddress, MetricsConfig};
use node::figures::Collector;
use std::sync::Arc;

/// Flag for the address of the metrics.
#[derive(Args, Clone, Debug)]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus at this address: 127.0.0.1:9273 or unix:PATH
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<MetricsAddress>,
}

impl MetricsArgs {
    /// Returns the configuration `file` with the address of the flag, if that is given.
    pub fn over(&self, file: &MetricsConfig) -> MetricsConfig {
        MetricsConfig { listen: self.metrics.clone().or(file.listen.clone()), ..file.clone() }
    }

    /// Listens at the address of the flag or else of the configuration `file`, and prints it.
    /// Without an address, the process has no metrics.
    pub fn bind(&self, file: &MetricsConfig) -> anyhow::Result<Metrics> {
        let from = if self.metrics.is_some() { "--metrics" } else { "metrics.listen" };
        let MetricsConfig { listen: Some(address), series_max } = self.over(file) else {
            return Ok(Metrics::default());
        };
        let bound = Bound::new(&address).with_context(|| format!("{from} {address}"))?;
        match bound.address() {
            MetricsAddress::Tcp(addr) => notice(&format!("metrics at http://{addr}/metrics")),
            unix => notice(&format!("metrics at {unix}")),
        }
        Ok(Metrics { collector: Some(Arc::default()), series_max, bound: Some((bound, from)), server: None })
    }
}

/// Metrics of a process. The server ends when this is dropped.
#[derive(Default)]
pub struct Metrics {
    /// Collector to which the nodes report; `None` if the process has no metrics.
    pub collector: Option<Arc<Collector>>,
    series_max: usize,
    /// The address, and the flag or key that it is from, until the server is started.
    bound: Option<(Bound, &'static str)>,
    server: Option<Server>,
}

impl Metrics {
    /// Starts the server, unless it runs, and reports an error. Called when all nodes run and the
    /// process has dropped its privileges.
    pub fn serve(&mut self) {
        let Some((bound, from)) = self.bound.take() else { return };
        match bound.serve(self.collector.clone().unwrap_or_default(), self.series_max) {
            Ok(server) => self.server = Some(server),
            Err(why) => notice(&format!("{from}: {why}")),
        }
    }
}
