use super::client::parse;

#[test]
fn iperf3s_json_gives_bytes_time_and_errors() {
    let good = r#"{"end": {"sum_received": {"seconds": 1.5, "bytes": 3000}}}"#;
    assert_eq!(parse(good).unwrap(), (3000, 1_500_000_000));
    let error = parse(r#"{"error": "unable to connect to server"}"#).unwrap_err().to_string();
    assert_eq!(error, "iperf3: unable to connect to server");
    assert!(parse(r#"{"end": {"sum_received": {"seconds": 1.5, "bytes": 0}}}"#).is_err());
    assert!(parse("").is_err());
}
