use proptest::prelude::*;
use tokio::sync::mpsc;

use super::*;

fn desk(keeping: Keeping) -> Arc<Desk> {
    Arc::new(Desk { stall: Duration::from_millis(50), ..Desk::new(keeping) })
}

fn raw(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn outgoing(about: About, size: usize) -> Outgoing {
    Outgoing { parts: vec![Bytes::from(vec![b'x'; size])], about }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

async fn sizes(attachment: &Attachment) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let Ok(Next::Item(item)) = tokio::time::timeout(Duration::from_millis(20), attachment.next()).await
    {
        sizes.push(item.parts[0].len());
    }
    sizes
}

#[test]
fn places_are_read_as_they_are_written() {
    let place = Place { stream: 3, number: 17 };
    assert_eq!(Place::read(&place.to_string()), Some(place));
    for text in ["", "-", "3", "3-", "-17", "3-017", "+3-17", "3-17 ", "3-17-1", "99999999999999999999-1"] {
        assert_eq!(Place::read(text), None, "{text}");
    }
}

#[test]
fn messages_go_to_the_stream_of_their_request() {
    run(async {
        let desk = desk(Keeping::ForReplay);
        let one = desk.open(&[raw("1")], None).unwrap();
        let two = desk.open(&[raw("2")], None).unwrap();
        desk.deliver(outgoing(About::Request(raw("2")), 20)).await;
        desk.deliver(outgoing(About::Response(raw("1")), 10)).await;
        desk.deliver(outgoing(About::Nothing, 30)).await;
        desk.deliver(outgoing(About::Response(raw("3")), 40)).await;
        desk.deliver(outgoing(About::Response(raw("1")), 50)).await;
        assert_eq!((sizes(&one).await, sizes(&two).await), (vec![10], vec![20]));
        assert!(one.is_answered() && !two.is_answered());
        assert!(matches!(one.next().await, Next::End));
        assert_eq!(sizes(&desk.attach_standalone().unwrap()).await, [30], "a second response is dropped");
    });
}

#[test]
fn without_sessions_what_belongs_to_no_request_is_dropped() {
    run(async {
        let desk = desk(Keeping::UntilSent);
        desk.deliver(outgoing(About::Nothing, 10)).await;
        desk.deliver(outgoing(About::Request(raw("9")), 10)).await;
        assert_eq!(desk.state().kept_messages, 0);
    });
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_can_come_back() {
    run(async {
        let desk = desk(Keeping::ForReplay);
        let stuck = desk.open(&[raw("1")], None).unwrap();
        stuck.make_resumable();
        let place = stuck.place();
        for _ in 0..6 {
            desk.deliver(outgoing(About::Request(raw("1")), 1 << 20)).await;
        }
        desk.deliver(outgoing(About::Response(raw("1")), 10)).await;
        assert!(matches!(stuck.next().await, Next::Cut));
        drop(stuck);
        let back = desk.resume(place).unwrap();
        let sizes = sizes(&back).await;
        assert_eq!(sizes.last(), Some(&10), "the response is the last to be forgotten: {sizes:?}");
        assert!(sizes.len() < 7);
    });
}

#[test]
fn a_request_that_is_left_is_given_up_once() {
    run(async {
        let desk = desk(Keeping::UntilSent);
        let (to_proxy, mut proxy) = mpsc::channel(1);
        let give_up = |message| GiveUp { to_proxy: to_proxy.clone(), message };
        // Two leave at once, and there is room for one message.
        drop(desk.open(&[raw("1")], None).unwrap().giving_up(give_up(raw("a"))));
        drop(desk.open(&[raw("2")], None).unwrap().giving_up(give_up(raw("b"))));
        let answered = desk.open(&[raw("3")], None).unwrap().giving_up(give_up(raw("c")));
        desk.deliver(outgoing(About::Response(raw("3")), 1)).await;
        drop(answered);
        assert_eq!([proxy.recv().await, proxy.recv().await], [Some(raw("a")), Some(raw("b"))]);
        assert!(proxy.try_recv().is_err());
        assert!(desk.state().owners.is_empty() && desk.state().streams.len() == 1);
    });
}

#[test]
fn requests_under_way_are_limited() {
    let desk = desk(Keeping::ForReplay);
    let ids: Vec<Bytes> = (0..REQUESTS).map(|id| Bytes::from(id.to_string())).collect();
    let all = desk.open(&ids, None).unwrap();
    assert_eq!(desk.open(&[raw("\"one more\"")], None).unwrap_err(), Unavailable::Full);
    drop(all);
    desk.open(&[raw("\"one more\"")], None).unwrap();
}

#[test]
fn a_closed_desk_ends_everything() {
    run(async {
        let desk = desk(Keeping::ForReplay);
        let (one, session) = (desk.open(&[raw("1")], None).unwrap(), desk.attach_standalone().unwrap());
        desk.close();
        assert!(matches!(one.next().await, Next::End));
        assert!(matches!(session.next().await, Next::End));
        assert_eq!(desk.open(&[raw("2")], None).unwrap_err(), Unavailable::Closed);
        assert_eq!(desk.resume(session.place()).unwrap_err(), Unavailable::Closed);
    });
}

proptest! {
    /// Whatever clients and the proxy do, memory stays bounded and is counted right.
    #[test]
    fn what_is_kept_is_counted_and_bounded(steps in proptest::collection::vec((0u8..6, 0usize..4, 0usize..(1 << 20)), 1..60)) {
        run(async {
            let desk = Arc::new(Desk { stall: Duration::ZERO, ..Desk::new(Keeping::ForReplay) });
            let names = [raw("1"), raw("2"), raw("3"), raw("4")];
            let mut held: Vec<Attachment> = Vec::new();
            for (step, which, size) in steps {
                let id = names[which].clone();
                match step {
                    0 => held.extend(desk.open(&[id], None).inspect(Attachment::make_resumable).ok()),
                    1 => desk.deliver(outgoing(About::Request(id), size)).await,
                    2 => desk.deliver(outgoing(About::Response(id), size)).await,
                    3 => desk.deliver(outgoing(About::Nothing, size)).await,
                    4 if !held.is_empty() => drop(held.remove(which % held.len())),
                    _ if !held.is_empty() => {
                        let attachment = &held[which % held.len()];
                        let _ = tokio::time::timeout(Duration::ZERO, attachment.next()).await;
                    }
                    _ => {}
                }
                let state = desk.state();
                let bytes: usize = state.streams.values().flat_map(|stream| &stream.items).map(Item::size).sum();
                let messages: usize = state.streams.values().map(|stream| stream.items.len()).sum();
                assert_eq!((state.kept_bytes, state.kept_messages), (bytes, messages));
                for stream in state.streams.values() {
                    assert_eq!(stream.unsent_bytes, stream.unsent().map(Item::size).sum::<usize>());
                }
                let most = KEPT_BYTES + held.len() * (UNSENT_BYTES + (1 << 20)) + (2 << 20);
                assert!(bytes <= most, "{bytes}");
            }
        });
    }
}
