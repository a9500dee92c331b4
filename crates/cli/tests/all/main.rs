//! Tests of the built program: one module for each command or use. They are one test program, since
//! linking one for each module took minutes.

mod common;

mod ask;
mod autoconf;
mod bench_services;
mod bridge;
mod captures;
mod control;
mod devices;
mod examples;
mod extcap;
mod flow;
mod help;
mod interop;
mod iperf3;
mod isr;
mod kv;
mod lab;
mod lines;
mod mount;
mod netperf;
mod oneliners;
mod pipes;
mod profile;
mod readme;
mod recovery;
mod repro;
mod results;
mod rewrite;
mod rfc2544;
mod router;
mod sandbox;
mod scan;
mod serve;
mod six;
mod six_clients;
mod split;
mod tap;
mod tcpdump;
mod text;
mod topo;
mod trace;
mod tunnel;
mod twin6;
mod watch;
