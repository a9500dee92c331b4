use super::*;

/// Serves as the child process of the other tests, which start this test in a new process.
#[test]
fn the_child() {
    crate::child_main_if_requested();
}

pub(super) const CHILD: [&str; 2] = ["child::tests::the_child", "--exact"];

#[test]
fn a_program_that_does_not_serve_is_detected() {
    let mut command = again("send", "none a test").unwrap();
    command.arg("--list"); // makes that process list the tests instead of running any
    let why = Child::start(command).unwrap_err().to_string();
    assert!(why.contains("main must call lab::child_main_if_requested() first"), "{why}");
}

#[test]
fn unknown_kinds_and_roles_are_rejected() {
    for (kind, role) in
        [("nobody", "here"), ("tap", "nobody"), ("forward", "nobody"), ("routed", "nobody"), ("send", "x")]
    {
        let why = Child::start(again(kind, role).unwrap()).unwrap_err().to_string();
        assert!(why.contains("unknown"), "{kind} {role}: {why}");
    }
}

#[test]
fn a_child_ends_when_its_socket_closes() {
    let mut child = Child::start(again("send", "none a test").unwrap()).unwrap();
    assert!(child.ask("nonsense").unwrap_err().to_string().contains("expected 'run'"));
    child.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    assert!(child.process.wait().unwrap().success());
    assert!(child.ask("run 1 1 1 0").is_err());
}

#[test]
fn numbers_are_counted_and_read() {
    assert_eq!(numbers::<3>("1 22 333").unwrap(), [1, 22, 333]);
    for line in ["", "1 2", "1 2 3 4", "1 x 3", "1  3"] {
        assert!(numbers::<3>(line).is_err(), "{line:?}");
    }
}
