//! A test on virtual time: 10 MB arrive over a link that loses 2 % of the frames. The same seed
//! gives the same packets, so the virtual time of the transfer is the same in every run.

use linerate::Host;
use linerate::net::tasks::{TcpListener, TcpStream};
use linerate::sim::World;
use std::time::Duration;

const BYTES: usize = 10_000_000;

fn transfer(seed: u64) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut world = World::new(seed);
    let link = "impair(loss=2%,delay=10ms):pair:link";
    let a = Host::builder().name("a").port(link).addr("10.0.0.1/24").build_in(&mut world)?;
    let b = Host::builder().name("b").port(link).addr("10.0.0.2/24").build_in(&mut world)?;
    world.spawn(async move {
        let listener = TcpListener::bind(&b, "10.0.0.2:80").await.expect("the port is free");
        let (stream, _) = listener.accept().await.expect("the client connects");
        stream.write_all(&vec![7; BYTES]).await.expect("the client reads");
    });
    let received = world.block_on(async {
        let (stream, mut bytes) = (TcpStream::connect(&a, "10.0.0.2:80").await?, Vec::new());
        stream.read_to_end(&mut bytes).await
    })??;
    assert_eq!(received, BYTES);
    assert!(world.unaccounted().is_empty());
    Ok(world.elapsed())
}

#[test]
fn the_same_seed_takes_the_same_virtual_time() {
    assert_eq!(transfer(7).unwrap(), transfer(7).unwrap());
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("10 MB over a link with 2 % loss took {:?} of virtual time", transfer(7)?);
    Ok(())
}
