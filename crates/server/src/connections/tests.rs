//! Choice of the connection to evict.

use std::net::Ipv4Addr;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

async fn admit(connections: &Arc<Connections>) -> OpenConnection {
    connections.admit(HERE, CancellationToken::new()).await
}

fn is_closed(open: &OpenConnection) -> bool {
    open.connection.closed.is_cancelled()
}

#[tokio::test(start_paused = true)]
async fn the_connection_that_was_idle_longest_makes_room_and_a_busy_one_never() {
    let connections = Connections::new(3);
    let busy = admit(&connections).await;
    let request = busy.connection.begin_request();
    let oldest = admit(&connections).await;
    oldest.connection.found_no_bytes();
    tokio::time::advance(Duration::from_secs(1)).await;
    let younger = admit(&connections).await;
    younger.connection.found_no_bytes();
    let closed = oldest.connection.closed.clone();
    tokio::spawn(async move {
        closed.cancelled().await;
        drop(oldest);
    });
    let newcomer = admit(&connections).await;
    assert!(!is_closed(&busy) && !is_closed(&younger));
    assert_eq!(connections.count(), 3);
    drop((request, newcomer));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_not_read_yet_is_not_idle() {
    let connections = Connections::new(1);
    let newcomer = admit(&connections).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    connections.evict();
    assert!(!is_closed(&newcomer), "its request lies in the buffer of the system");
    drop(newcomer.connection.begin_request());
    tokio::time::advance(Duration::from_secs(1)).await;
    connections.evict();
    assert!(!is_closed(&newcomer), "the next request may lie there");
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_bytes_is_closed_only_after_a_while() {
    let connections = Connections::new(1);
    let newcomer = admit(&connections).await;
    newcomer.connection.found_no_bytes();
    connections.evict();
    assert!(!is_closed(&newcomer), "a request may be on its way");
    tokio::time::advance(MIN_IDLE / 2).await;
    newcomer.connection.found_no_bytes();
    tokio::time::advance(MIN_IDLE / 2).await;
    connections.evict();
    assert!(is_closed(&newcomer));
}

#[tokio::test(start_paused = true)]
async fn a_connection_stays_open_for_its_request_and_the_rest_of_its_body() {
    let connections = Connections::new(1);
    let open = admit(&connections).await;
    let request = open.connection.begin_request();
    let body = open.connection.begin_body();
    open.connection.found_no_bytes();
    open.connection.blocked_on_write();
    tokio::time::advance(MIN_STALLED_DOWNLOAD * 5).await;
    connections.evict();
    assert!(!is_closed(&open), "the request may change something");
    open.connection.written(true);
    drop(request);
    tokio::time::advance(MIN_STALLED / 2).await;
    connections.evict();
    assert!(!is_closed(&open), "the client may not have seen the response");
    tokio::time::advance(MIN_STALLED / 2).await;
    connections.evict();
    assert!(is_closed(&open));
    assert!(open.connection.begin_request().is_none(), "a request that comes now is not begun");
    drop(body);
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_response_is_not_read_is_closed_and_a_download_later() {
    for (is_large, min) in [(false, MIN_STALLED), (true, MIN_STALLED_DOWNLOAD)] {
        let connections = Connections::new(1);
        let open = admit(&connections).await;
        let request = open.connection.begin_request();
        if let Some(request) = &request {
            request.begin_response(is_large);
        }
        let stalls = async |time: Duration| {
            open.connection.blocked_on_write();
            tokio::time::advance(time).await;
            connections.evict();
            is_closed(&open)
        };
        assert!(!stalls(min / 2).await);
        open.connection.written(false);
        assert!(!stalls(min / 2).await, "it took some of it");
        // The buffers of the process and of the system hold the whole response.
        drop(request);
        assert!(!stalls(min / 4).await);
        assert!(stalls(min / 4).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_that_was_read_to_its_end_is_idle() {
    let connections = Connections::new(1);
    let open = admit(&connections).await;
    let request = open.connection.begin_request();
    if let Some(request) = &request {
        request.begin_response(true);
    }
    open.connection.blocked_on_write();
    drop(request);
    open.connection.written(true);
    open.connection.found_no_bytes();
    connections.evict();
    assert!(!is_closed(&open), "a request may be on its way");
    tokio::time::advance(MIN_IDLE).await;
    connections.evict();
    assert!(is_closed(&open));
}

#[tokio::test(start_paused = true)]
async fn connections_of_an_address_with_more_than_its_share_make_room_first() {
    let connections = Connections::new(8);
    let mut open = Vec::new();
    let address = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    for address in [1, 2, 1, 2, 3, 3, 3].map(address) {
        open.push(connections.admit(address, CancellationToken::new()).await);
        tokio::time::advance(MIN_IDLE).await;
    }
    for open in &open {
        open.connection.found_no_bytes();
        tokio::time::advance(MIN_IDLE).await;
    }
    let closed = || open.iter().map(is_closed).collect::<Vec<_>>();
    connections.evict();
    assert_eq!(closed(), [false, false, false, false, true, false, false]);
    // A connection that is being closed still counts, and is evicted only once.
    connections.evict();
    connections.evict();
    connections.evict();
    assert_eq!(closed(), [true, false, false, false, true, true, true]);
}

#[test]
fn addresses_of_one_ipv6_network_are_one_address() -> Result<(), std::net::AddrParseError> {
    assert_eq!(network("2001:db8:1:2:3:4:5:6".parse()?), network("2001:db8:1:2::".parse()?));
    assert_ne!(network("2001:db8:1:2::".parse()?), network("2001:db8:1:3::".parse()?));
    assert_eq!(network("::ffff:192.0.2.1".parse()?), network("192.0.2.1".parse()?));
    Ok(())
}

#[tokio::test]
async fn the_rest_of_a_body_after_its_response_is_no_head_of_a_request() {
    let connection = Arc::new(Connection::new(HERE, CancellationToken::new()));
    let request = connection.begin_request();
    let body = connection.begin_body();
    drop(request);
    assert!(!connection.received() && !connection.found_no_bytes());
    let next = connection.begin_request();
    drop(body);
    assert!(!connection.received() && connection.stalled_since().is_none());
    drop(next);
    assert!(connection.received() && connection.found_no_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_due_once_a_second() {
    let connections = Connections::new(1);
    assert!(connections.may_warn());
    assert!(!connections.may_warn());
    tokio::time::advance(WARNING_INTERVAL).await;
    assert!(connections.may_warn());
}
