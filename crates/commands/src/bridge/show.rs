//! `show`, `audit`, and the final report of a switch.

use super::context::{Control, DONE, Parameter, listing};
use super::counters::object;
use super::{guard, ifconfig};
use crate::cards::shown as cards_shown;
use crate::statement;
use bridge::{FdbCounts, Kind, PortNo, StpCounts};
use grammar::{CommandError, Form, Words};
use node::switch::{Counts, Info, Queue, Switch, SwitchThread};
use serde_json::{Map, Value, json};
use stats::{Entry, Stage};

/// Syntax forms of `show`.
pub(super) const FORMS: &[Parameter] = &[
    Form {
        grammar: "bridge",
        about: "Show the bridge and its members, like ifconfig.",
        run: |of, _| ifconfig::run(of, Words::new(&[])),
    },
    Form {
        grammar: "counters",
        about: "Show the counters of the bridge, its tables, snooping and spanning tree.",
        run: |of, _| Ok(listed(&counted(of.switch), of.json)),
    },
    Form {
        grammar: "polling",
        about: "Show each loop and worker: ports, state, counters.",
        run: |of, _| Ok(polling(of.switch, of.json)),
    },
    Form {
        grammar: "ledger [on|off]",
        about: "Show the CPU ticks spent in each stage; on and off start and stop the accounting.",
        run: |of, args| match args.get("ledger") {
            Some(word @ ("on" | "off")) => {
                of.switch.set_ledger(word == "on");
                DONE
            }
            _ => Ok(ledger(of)),
        },
    },
    Form {
        grammar: "ports",
        about: "Show each port: state, warnings, counters.",
        run: |of, _| Ok(ports(of.switch, of.json)),
    },
    Form {
        grammar: "drops",
        about: "Show dropped frames by reason.",
        run: |of, _| Ok(listed(&drops(of.switch), of.json)),
    },
    Form {
        grammar: "rules",
        about: "Show each rule with the number of its matches.",
        run: |of, _| Ok(guard::rules(of.switch, of.json)),
    },
    Form {
        grammar: "moves",
        about: "Show the addresses that moved between members since this command last ran.",
        run: |of, _| Ok(moves(of.switch, of.json)),
    },
    Form { grammar: "nic", about: "Show the state of nic ports.", run: |of, _| nic(of.switch, of.json) },
    Form { grammar: "pools", about: "Show the buffer pool.", run: |of, _| Ok(pool(of.switch, of.json)) },
];

/// Returns the CPU ticks of the loops by processing stage, the cost of the accounting itself, and
/// the remaining ticks of the time during which accounting was enabled. The parts of the stages
/// `port.rx` and `port.tx` follow the total.
fn ledger(of: &Control<'_>) -> String {
    let switch = of.switch;
    let costs = switch.costs();
    let frames = Some(costs.loops.stages.iter().find(|cost| cost.stage == Stage::PortRx).map_or(0, |cost| cost.units));
    let loops = statement::of(&costs.loops.around(&costs.ports));
    let ports = statement::of(&costs.ports);
    let value = || {
        let mut value = statement::json(&loops, frames);
        if let Some(object) = value.as_object_mut() {
            object.insert("ports".to_owned(), statement::rows(&ports, frames).into());
        }
        value
    };
    let text = || statement::text(&loops, frames) + &statement::parts(&ports, frames, loops.total);
    of.listing(value, text)
}

/// A polling loop with its ports and counters. If it dispatches frames to workers, the counters of
/// the dispatcher are included.
struct Loop {
    number: usize,
    ports: Vec<String>,
    levels: [(&'static str, &'static str, u64); 6],
    counts: Vec<Entry>,
    posted: Vec<Entry>,
}

/// A worker with its counters.
struct Worker {
    number: usize,
    counts: Vec<Entry>,
}

fn polling(switch: &Switch, json: bool) -> String {
    let (members, mode) = (switch.members(), switch.sysctls.mode());
    let of = |number| {
        let thread = switch.thread(number)?;
        let own = members.iter().filter(|(_, info)| info.is_polled_by(number));
        let ports = own.map(|(_, info)| info.name.clone()).collect();
        let posted = switch.dataflow().map(|flow| stats::entries(&flow.posted)).unwrap_or_default();
        let (levels, mut counts) = (thread.polling.gauges().list(), stats::entries(&thread.polling.counts));
        counts.extend(sync(&thread));
        Some(Loop { number, ports, levels, counts, posted })
    };
    let loops: Vec<Loop> = (0..switch.loops()).filter_map(of).collect();
    let row = |of: &Loop| {
        let levels: Map<_, _> = of.levels.iter().map(|(name, _, value)| (name.to_string(), (*value).into())).collect();
        let counts = [&of.counts[..], &of.posted].concat();
        json!({ "loop": of.number, "mode": mode.name(), "ports": of.ports, "levels": levels, "counters": object(&counts) })
    };
    let text = |of: &Loop| {
        let ports = if of.ports.is_empty() { "nothing".to_string() } else { of.ports.join(" ") };
        let levels: Vec<_> = of.levels.iter().map(|(name, _, value)| format!("{name} {value}")).collect();
        let head = format!("loop {}: {mode}, polls {ports}\n\t{}\n", of.number, levels.join("  "));
        head + &nonzero_lines(&of.counts) + &nonzero_lines(&of.posted)
    };
    let workers = workers(switch);
    let worker = |of: &Worker| json!({ "worker": of.number, "counters": object(&of.counts) });
    listing(
        json,
        || loops.iter().map(row).chain(workers.iter().map(worker)).collect(),
        || {
            let loops = loops.iter().map(text);
            loops
                .chain(workers.iter().map(|of| format!("worker {}\n{}", of.number, nonzero_lines(&of.counts))))
                .collect()
        },
    )
}

fn workers(switch: &Switch) -> Vec<Worker> {
    let Some(flow) = switch.dataflow() else { return Vec::new() };
    let of = |number| {
        let mut counts = stats::entries(flow.work(number));
        counts.extend(switch.thread(switch.loops() + number).iter().flat_map(|thread| sync(thread)));
        Worker { number, counts }
    };
    (0..flow.workers()).map(of).collect()
}

/// Returns the counters of the events that a thread exchanges with the other threads.
fn sync(thread: &SwitchThread) -> Vec<Entry> {
    thread.sync().map(|sync| stats::entries(sync)).unwrap_or_default()
}

/// Returns the nonzero counters, one per line.
fn nonzero_lines(entries: &[Entry]) -> String {
    let line = |e: &Entry| format!("\t{:<26} {:>12}  {}\n", e.name, e.value, e.sentence);
    entries.iter().filter(|entry| entry.value > 0).map(line).collect()
}

/// A queue of a member, with its counters and state.
struct Row {
    info: Info,
    queue: Queue,
    warnings: Vec<String>,
    gone: Option<String>,
    counts: Vec<Entry>,
}

fn ports(switch: &Switch, json: bool) -> String {
    let members = switch.members().into_iter();
    let queues = members.flat_map(|(number, info)| {
        let queues = info.queues.clone();
        queues.into_iter().map(move |queue| (number, info.clone(), queue))
    });
    let of = |(number, info, queue): (PortNo, Info, Queue)| {
        let (warnings, gone) = switch.thread(queue.thread)?.warnings(number);
        let counts = [stats::entries(&queue.counts.rx), stats::entries(&queue.counts.tx)].concat();
        Some(Row { info, queue, warnings, gone, counts })
    };
    let rows: Vec<Row> = queues.filter_map(of).collect();
    let row = |Row { info, queue, warnings, gone, counts }: &Row| {
        json!({ "ifname": info.name, "port": queue.spec, "loop": queue.thread, "mtu": info.caps.mtu, "gone": gone,
                "warnings": warnings, "counters": object(counts) })
    };
    let text = |Row { info, queue, warnings, gone, counts }: &Row| {
        let mut out = format!("{}: {} mtu {} loop {}\n", info.name, queue.spec, info.caps.mtu, queue.thread);
        out.extend(gone.iter().map(|why| format!("\tgone: {why}\n")));
        out.extend(warnings.iter().map(|warning| format!("\t{warning}\n")));
        let reported = counts.iter().filter(|entry| entry.value > 0);
        out + &reported.map(|entry| format!("\t{:<20} {:>12}\n", entry.name, entry.value)).collect::<String>()
    };
    listing(json, || rows.iter().map(row).collect(), || rows.iter().map(text).collect())
}

fn nic(switch: &Switch, json: bool) -> Result<String, CommandError> {
    let members = switch.members();
    let cards: Vec<_> = members.iter().filter_map(|(_, info)| Some((info.name.clone(), info.nic.clone()?))).collect();
    cards_shown(&cards, json)
}

/// Returns the counters that do not count forwarded frames: the counters of the address tables, of
/// the bridge itself, of multicast snooping, and of all spanning tree ports together. The snooping
/// counters are read from the first thread only, because all threads receive the same messages.
fn counted(switch: &Switch) -> Vec<Entry> {
    let (mut fdb, mut mutings, mut unlogged) = (FdbCounts::default(), 0, 0);
    switch.each_thread(|thread| {
        fdb.add(&thread.bridge.fdb().counts());
        mutings += thread.bridge.mutings();
        unlogged += thread.bridge.moves_lost();
    });
    let stp = switch.tree(|stp| {
        let mut all = StpCounts::default();
        stp.ports().for_each(|port| all.add(&port.counts));
        all
    });
    let snoop = switch.thread(0).map(|thread| thread.bridge.snoop_counts()).unwrap_or_default();
    let mut all = stats::entries(&fdb);
    all.push(Entry { name: "bridge.mute.times".into(), sentence: "Times that a port was muted.", value: mutings });
    let sentence = "Moves of addresses missing in 'show moves', because they occurred before its first use.";
    all.push(Entry { name: "bridge.moves.unlogged".into(), sentence, value: unlogged });
    all.extend(
        [stats::entries(switch.local_counts()), stats::entries(&snoop), stats::entries(&stp.unwrap_or_default())]
            .concat(),
    );
    all
}

/// Returns the moves of addresses from one port to another since the last call, at most 64 per
/// thread.
fn moves(switch: &Switch, json: bool) -> String {
    let members = switch.members();
    let name = |number: PortNo| {
        members.iter().find(|(no, _)| *no == number).map_or("?".to_string(), |(_, info)| info.name.clone())
    };
    let mut all = Vec::new();
    switch.each_thread(|thread| all.extend(std::iter::from_fn(|| thread.bridge.take_move())));
    let row = |m: &bridge::Move| {
        json!({ "mac": m.key.mac().to_string(), "vlan": m.key.vid(), "from": name(m.from), "to": name(m.to),
                "times": m.times, "muted": m.muted })
    };
    let line = |m: &bridge::Move| {
        let muted = if m.muted { format!("; {} is muted", name(m.from)) } else { String::new() };
        format!("{} Vlan{} {} -> {}, {} times{muted}\n", m.key.mac(), m.key.vid(), name(m.from), name(m.to), m.times)
    };
    listing(json, || all.iter().map(row).collect(), || all.iter().map(line).collect())
}

/// Returns the state of the pool that all ports share.
fn pool(switch: &Switch, json: bool) -> String {
    let stats = switch.pool().stats();
    let text = || {
        let notice = stats.notice.iter().map(|notice| format!("note: {notice}\n")).collect::<String>();
        let (kind, live) = (stats.kind, stats.live());
        format!(
            "{kind}: {live} of {} buffers of {} bytes in use, {} times empty\n{notice}",
            stats.buffers, stats.size, stats.empty
        )
    };
    let row = || {
        json!({ "name": switch.name, "kind": stats.kind.to_string(), "buffers": stats.buffers, "size": stats.size, "live": stats.live(),
                "gets": stats.gets, "puts": stats.puts, "empty": stats.empty, "foreign": stats.foreign })
    };
    listing(json, || Value::Array(vec![row()]), text)
}

/// Returns the drop reasons that have a count.
fn drops(switch: &Switch) -> Vec<Entry> {
    switch.drops(&switch.audit()).into_iter().filter(|reason| reason.value > 0).collect()
}

fn listed(entries: &[Entry], json: bool) -> String {
    let row = |e: &Entry| json!({ "name": e.name, "value": e.value, "sentence": e.sentence });
    let line = |e: &Entry| format!("{:<40} {:>12}  {}\n", e.name, e.value, e.sentence);
    listing(json, || entries.iter().map(row).collect(), || entries.iter().map(line).collect())
}

/// Returns the frame totals, with a note if they do not balance.
pub(super) fn audit(switch: &Switch, json: bool) -> String {
    let audit = switch.audit();
    let (b, posted) = (audit.bridge, audit.posted);
    let row = || {
        json!({ "name": switch.name, "posted": { "offered": posted.offered, "done": posted.done, "dropped": posted.dropped, "held": posted.held },
                "received": b.received, "made": b.made, "copied": b.copied, "given": b.given,
                "dropped": b.dropped, "local": b.local, "sent": audit.sent, "failed": audit.failed,
                "full": audit.full, "late": audit.late, "held": audit.held,
                "holds": audit.holds() })
    };
    listing(json, row, || switch.audit_text(&audit))
}

/// Returns the counters of each member and the drops by reason, as a table.
pub fn report(switch: &Switch) -> String {
    let mut out = format!(
        "{:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8} {:>8}  port",
        "received", "forwarded", "flooded", "dropped", "given", "sent", "failed", "late"
    );
    for (number, info) in switch.members() {
        let Counts { bridge: b, sent, failed, full, late, .. } = switch.counts(number);
        out += &format!(
            "\n{:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8} {:>8}  {}",
            b.received,
            b.forwarded,
            b.flooded,
            b.dropped,
            b.given,
            sent,
            failed,
            full + late,
            info.spec()
        );
    }
    for entry in drops(switch) {
        out += &format!("\n{:>10} {}: {}", entry.value, entry.name, entry.sentence);
    }
    let mut counts = FdbCounts::default();
    switch.each_thread(|thread| counts.add(&thread.bridge.fdb().counts()));
    let known = switch.addresses().iter().filter(|(entry, ..)| entry.kind != Kind::Local).count();
    out += &format!("\n{known} addresses known, {} moved, {} not learned: table full", counts.moved, counts.full);
    if let Some(ticks) = switch.average().value() {
        out += &format!("\n{ticks:.0} ticks per frame in the bridge ({} frames measured)", switch.average().frames);
    }
    out
}

/// Returns the receive warnings of ports (for example, records that are not frames), as sentences.
pub fn warnings(switch: &Switch) -> Vec<String> {
    of_queues(switch, |thread, number| thread.warnings(number).0)
}

/// Returns the ports that failed (for example, a removed device or a truncated file), as sentences
/// with the reason.
pub fn lost(switch: &Switch) -> Vec<String> {
    of_queues(switch, |thread, number| thread.why_lost(number).into_iter().collect())
}

/// Calls `say` for each queue of each port, and returns the messages, prefixed with the name of the
/// port.
fn of_queues(switch: &Switch, say: impl Fn(&SwitchThread, PortNo) -> Vec<String>) -> Vec<String> {
    let of = |number: PortNo, queue: Queue| {
        let said = switch.thread(queue.thread).map(|thread| say(&thread, number)).unwrap_or_default();
        said.into_iter().map(move |what| port::port_message(&queue.spec, &what)).collect::<Vec<_>>()
    };
    let members = switch.members().into_iter();
    members
        .flat_map(|(number, info)| info.queues.into_iter().flat_map(|queue| of(number, queue)).collect::<Vec<_>>())
        .collect()
}
