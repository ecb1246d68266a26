//! Sessions with a server on loopback that records requests: which ones are sent, how often, with which token, and how each
//! failure is reported. Time is tokio's, paused.

mod deletion;
mod failures;
mod hostile;
mod hosts;
mod limits;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use caip_openstack::floating_ip::{FloatingIpId, NetworkId};
use caip_openstack::openstack::session::Sessions;
use caip_openstack::openstack::{Clouds, ErrorKind, Neutron, NewFloatingIp};
use futures::future::join_all;
use serde_json::json;
use server::{
    ReceivedRequest, Reply, Server, catalog_of, clock, credentials, listing, row, token, token_of_project,
    token_with_catalog, token_without_project,
};
use tokio::time::{Instant, sleep};

async fn connect(server: &Server) -> Arc<dyn Neutron> {
    Sessions::new(clock()).connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects")
}

#[tokio::test(start_paused = true)]
async fn concurrent_refused_calls_share_one_new_token() {
    let server = Server::start(|request: &ReceivedRequest| match request.token.as_deref() {
        Some("token-1") => Reply::unauthorized(),
        _ => listing(&[]),
    })
    .await;
    let neutron = connect(&server).await;
    sleep(Duration::from_secs(60)).await;
    for result in join_all((0..30).map(|_| neutron.list_floating_ips())).await {
        result.expect("the second token is accepted");
    }
    assert_eq!(server.count("POST /v3/auth/tokens"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_shortly_before_it_expires() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let neutron = connect(&server).await;
    sleep(Duration::from_secs(3600 - 130)).await;
    neutron.list_floating_ips().await.expect("it lists");
    assert_eq!(server.count("POST /v3/auth/tokens"), 1);
    sleep(Duration::from_secs(60)).await;
    neutron.list_floating_ips().await.expect("it lists");
    assert_eq!(server.count("POST /v3/auth/tokens"), 2);
    let tokens: Vec<_> = server.requests().into_iter().filter_map(|request| request.token).collect();
    assert_eq!(tokens, ["token-1", "token-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_neutron_that_accepts_no_token_causes_few_authentications() {
    let server = Server::start(|_: &ReceivedRequest| Reply::unauthorized()).await;
    let neutron = connect(&server).await;
    for _ in 0..50 {
        let error = neutron.list_floating_ips().await.expect_err("no token is accepted");
        assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
    }
    assert!(server.count("POST /v3/auth/tokens") <= 2);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_not_retried_at_once_but_changed_ones_are() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    server.set_keystone(|seen| seen.body.contains("hunter2").then(Reply::unauthorized));
    let observed = Arc::new(AtomicUsize::new(0));
    let failures = observed.clone();
    let sessions = Sessions::new(clock()).on_authentication(move |_, error| {
        failures.fetch_add(usize::from(error == Some(ErrorKind::Unauthorized)), Ordering::SeqCst);
    });
    let wrong = credentials(&server.url, "hunter2");
    for result in join_all((0..50).map(|_| sessions.connect("team-a", &wrong))).await {
        let Err(error) = result else { panic!("the password is wrong") };
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        assert!(error.to_string().contains("check username, password, project and domain in clouds.yaml"), "{error}");
    }
    assert_eq!(server.count("POST /v3/auth/tokens"), 1);
    sessions.connect("team-a", &credentials(&server.url, "hunter3")).await.expect("this password is right");
    assert_eq!(server.count("POST /v3/auth/tokens"), 2);
    sleep(Duration::from_secs(6)).await;
    assert!(sessions.connect("team-a", &wrong).await.is_err());
    assert_eq!(server.count("POST /v3/auth/tokens"), 3);

    // A fix in Keystone is noticed within 30 s.
    server.set_keystone(|_| None);
    sleep(Duration::from_secs(16)).await;
    assert!(sessions.connect("team-a", &wrong).await.is_ok());
    assert_eq!(observed.load(Ordering::SeqCst), 2, "only requests to Keystone are observed");
}

#[tokio::test(start_paused = true)]
async fn the_same_credentials_share_a_session_and_others_do_not() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let sessions = Sessions::new(clock());
    let first = sessions.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects");
    let same = sessions.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects");
    let other = sessions.connect("team-a", &credentials(&server.url, "hunter3")).await.expect("it connects");
    assert!(Arc::ptr_eq(&first, &same) && !Arc::ptr_eq(&first, &other));
    assert_eq!(server.count("POST /v3/auth/tokens"), 2);
    assert_eq!(first.scope().endpoint, format!("{}/network/v2.0/", server.url));
}

/// A Keystone with a Neutron, and another Neutron that its catalogue names from now on.
async fn moved_neutron() -> (Server, Server, Sessions, Arc<dyn Neutron>) {
    let (old, new) = (Server::start(|_| listing(&[])).await, Server::start(|_| listing(&["f1"])).await);
    let sessions = Sessions::new(clock());
    let session = sessions.connect("team-a", &credentials(&old.url, "hunter2")).await.expect("it connects");
    let url = new.url.clone();
    old.set_keystone(move |_| Some(token(2, &url, "2026-11-21T12:00:00Z")));
    (old, new, sessions, session)
}

#[tokio::test(start_paused = true)]
async fn the_next_session_is_with_the_neutron_that_the_present_token_names() {
    let (old, new, sessions, before) = moved_neutron().await;
    let credentials = credentials(&old.url, "hunter2");
    let connect = || sessions.connect("team-a", &credentials);
    assert!(before.is_current() && Arc::ptr_eq(&before, &connect().await.expect("it is open")));
    sleep(Duration::from_secs(3600 - 100)).await;
    before.list_floating_ips().await.expect("the old one answers still");
    assert!(!before.is_current());
    let after = connect().await.expect("it connects");
    assert_eq!(after.list_floating_ips().await.expect("the new one answers").len(), 1);
    assert!(after.is_current() && after.scope().endpoint.starts_with(&new.url), "{:?}", after.scope());
    assert!(Arc::ptr_eq(&after, &connect().await.expect("it is open")));
    assert_eq!(old.count("POST /v3/auth/tokens"), 2);
}

#[tokio::test(start_paused = true)]
async fn while_neutron_does_not_answer_its_url_is_asked_for_every_five_minutes() {
    let (old, new, sessions, before) = moved_neutron().await;
    old.set_neutron(|_| Reply::Break);
    let (url, asked) = (old.url.clone(), || old.count("POST /v3/auth/tokens"));
    old.set_keystone(move |_| Some(token(2, &url, "2026-11-21T12:00:00Z")));
    for _ in 0..29 {
        before.list_floating_ips().await.expect_err("no answer");
        sleep(Duration::from_secs(20)).await;
    }
    assert!((2..=3).contains(&asked()), "{}", asked());
    assert!(before.is_current());
    let url = new.url.clone();
    old.set_keystone(move |_| Some(token(3, &url, "2026-11-21T12:00:00Z")));
    sleep(Duration::from_secs(300)).await;
    for _ in 0..2 {
        before.list_floating_ips().await.expect_err("no answer");
        sleep(Duration::from_secs(20)).await;
    }
    let after = sessions.connect("team-a", &credentials(&old.url, "hunter2")).await.expect("it connects");
    after.list_floating_ips().await.expect("the new one answers");
}

/// The project is another one where clouds.yaml names none and the user's default project was changed, or where the project
/// was created again under its name. There, and in another region, all floating IPs would look deleted.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_with_a_token_for_another_project_or_region() {
    type Token = fn(&str) -> Reply;
    let elsewhere: [(Token, &str, &str); 3] = [
        (|url| token_of_project("p2", url), "p2", "RegionOne"),
        (|url| token_with_catalog(catalog_of("RegionTwo", url)), "p1", "RegionTwo"),
        (|url| token_of_project("p2", &format!("{url}/moved")), "p2", "RegionOne"),
    ];
    for (token, project, region) in elsewhere {
        for is_refused_first in [false, true] {
            let server = Server::start(move |request: &ReceivedRequest| match request.token.as_deref() {
                _ if is_refused_first => Reply::unauthorized(),
                _ if request.method == "POST" => Reply::new(201, json!({"floatingip": row("one")})),
                _ => listing(&[]),
            })
            .await;
            let (sessions, credentials) = (Sessions::new(clock()), credentials(&server.url, "hunter2"));
            let connect = || sessions.connect("team-a", &credentials);
            let before = connect().await.expect("it connects");
            let url = server.url.clone();
            server.set_keystone(move |_| Some(token(&url)));
            sleep(Duration::from_secs(if is_refused_first { 60 } else { 3600 - 100 })).await;

            let new = NewFloatingIp { network: NetworkId::new("n1"), subnet: None, description: "mark".to_owned() };
            let created = before.create_floating_ip(&new, &|| true).await.expect_err("it is not sent");
            let listed = before.list_floating_ips().await.expect_err("it is not sent");
            for error in [created, listed] {
                assert!(error.kind == ErrorKind::Credentials && !error.is_unknown(), "{error:?}");
                assert!(error.to_string().contains(if project == "p2" { "p2" } else { "RegionTwo" }), "{error}");
            }
            assert_eq!(server.count("POST /network") + server.count("GET /network"), usize::from(is_refused_first));

            assert!(!before.is_current());
            let after = connect().await.expect("it connects");
            assert!(after.is_current() && !Arc::ptr_eq(&before, &after));
            assert_eq!((after.scope().project.as_str(), after.scope().region.as_str()), (project, region));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn keystone_is_asked_every_five_minutes_whether_the_former_project_is_the_users_again() {
    let server = Server::start(|_| listing(&[])).await;
    let (sessions, credentials) = (Sessions::new(clock()), credentials(&server.url, "hunter2"));
    let connect = async || sessions.connect("team-a", &credentials).await.expect("it connects");
    let kept = connect().await;
    let url = server.url.clone();
    server.set_keystone(move |_| Some(token_of_project("p2", &url)));
    sleep(Duration::from_secs(3600 - 100)).await;
    kept.list_floating_ips().await.expect_err("it is not sent");
    server.set_keystone(|_| None);
    for _ in 0..30 {
        assert_eq!(connect().await.scope().project.as_str(), "p2");
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(connect().await.scope(), kept.scope());
    assert!(kept.is_current());
    kept.list_floating_ips().await.expect("it is sent");
    assert_eq!(server.count("POST /v3/auth/tokens"), 3);
}

/// What the conditions say is the same whether the token is known or requested again.
#[tokio::test(start_paused = true)]
async fn a_session_whose_next_token_is_for_no_project_always_says_so() {
    let server = Server::start(|_| listing(&[])).await;
    let (sessions, credentials) = (Sessions::new(clock()), credentials(&server.url, "hunter2"));
    let before = sessions.connect("team-a", &credentials).await.expect("it connects");
    server.set_keystone(|_| Some(token_without_project()));
    sleep(Duration::from_secs(3600 - 100)).await;
    let mut refused = 0;
    for _ in 0..10 {
        let listed = before.list_floating_ips().await.expect_err("it is not sent").to_string();
        assert!(listed.starts_with("authenticate: the token is for no project: "), "{listed}");
        if let Err(error) = sessions.connect("team-a", &credentials).await {
            assert_eq!(error.to_string(), listed);
            refused += 1;
        }
        sleep(Duration::from_secs(4)).await;
    }
    assert!(refused > 0, "a new session is refused");
    assert_eq!(server.count("GET /network"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_keystone_that_does_not_answer_stops_no_neutron_that_failed_once() {
    let server = Server::start(|_| listing(&[])).await;
    let neutron = connect(&server).await;
    sleep(Duration::from_secs(400)).await;
    server.set_keystone(|_| Some(Reply::never()));
    server.set_neutron(|_| Reply::Break);
    neutron.list_floating_ips().await.expect_err("no answer");
    server.set_neutron(|_| listing(&[]));
    for _ in 0..20 {
        neutron.list_floating_ips().await.expect("the token is valid");
        sleep(Duration::from_secs(20)).await;
    }
    assert!(server.count("POST /v3/auth/tokens") <= 3);
}

/// Each tenant chooses the Keystone that its Secret names, and that says which project and which Neutron it is.
#[tokio::test]
async fn another_keystone_with_the_same_project_and_neutron_has_a_scope_and_a_throttle_of_its_own() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let tenants = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let url = server.url.clone();
    tenants.set_keystone(move |_| Some(token(1, &url, "2026-11-21T10:00:00Z")));
    let sessions = Sessions::new(clock()).max_concurrent_calls(1);
    let honest = sessions.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects");
    let other = sessions.connect("team-a", &credentials(&tenants.url, "hunter2")).await.expect("it connects");
    assert_eq!(honest.scope().endpoint, other.scope().endpoint);
    assert_eq!(honest.scope().project, other.scope().project);
    assert_ne!(honest.scope(), other.scope());

    // The first call is never answered.
    server.set_neutron(|_| Reply::never());
    let stuck = tokio::spawn(async move { other.list_floating_ips().await });
    while server.count("GET /network") == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    server.set_neutron(|_| listing(&[]));
    honest.list_floating_ips().await.expect("its call has a slot of its own");
    stuck.abort();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_token_keeps_no_slot() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let sessions = Sessions::new(clock()).max_concurrent_calls(1);
    let url = server.url.clone();
    server.set_keystone(move |_| Some(token(1, &url, "0001-01-01T00:00:00Z")));
    let expired = sessions.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects");
    server.set_keystone(|_| None);
    let valid = sessions.connect("team-a", &credentials(&server.url, "hunter3")).await.expect("it connects");
    assert_eq!(expired.scope(), valid.scope());
    sleep(Duration::from_secs(6)).await;
    server.set_keystone(|_| Some(Reply::never()));
    let waiting = tokio::spawn(async move { expired.list_floating_ips().await });
    while server.count("POST /v3/auth/tokens") < 3 {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    valid.list_floating_ips().await.expect("its token is valid");
    assert!(began.elapsed() < Duration::from_secs(1), "it waited for {:?}", began.elapsed());
    waiting.abort();
}

#[tokio::test]
async fn at_most_eight_calls_run_concurrently() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (running, most.clone());
    let server = Server::start(move |_: &ReceivedRequest| {
        let (running, most) = counted.clone();
        Reply::later(async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(10)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            listing(&[])
        })
    })
    .await;
    let neutron = connect(&server).await;
    for result in join_all((0..50).map(|_| neutron.list_floating_ips())).await {
        result.expect("it lists");
    }
    assert_eq!(most.load(Ordering::SeqCst), 8);
}

#[tokio::test(start_paused = true)]
async fn a_project_with_many_calls_does_not_delay_another() {
    let server = Server::start(|_: &ReceivedRequest| listing(&[])).await;
    let url = server.url.clone();
    server.set_keystone(move |request| request.body.contains("hunter3").then(|| token_of_project("p2", &url)));
    let sessions = Sessions::new(clock()).max_concurrent_calls(1);
    let loud = sessions.connect("team-a", &credentials(&server.url, "hunter2")).await.expect("it connects");
    let quiet = sessions.connect("team-b", &credentials(&server.url, "hunter3")).await.expect("it connects");
    assert_ne!(loud.scope().project, quiet.scope().project);
    server.set_neutron(|_| {
        Reply::later(async {
            sleep(Duration::from_secs(1)).await;
            listing(&[])
        })
    });
    let many = join_all((0..20).map(|_| loud.list_floating_ips()));
    let one = async {
        quiet.list_floating_ips().await.expect("it lists");
        server.count("GET /network")
    };
    let (many, calls) = tokio::join!(many, one);
    assert!(many.iter().all(Result::is_ok));
    assert!(calls <= 3, "{calls} calls came before its answer");
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_applies_to_all_calls_of_the_project() {
    let first = AtomicUsize::new(0);
    let server = Server::start(move |_: &ReceivedRequest| match first.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::new(429, json!({"error": {"message": "slow down"}})).header("Retry-After", "4"),
        _ => listing(&[]),
    })
    .await;
    let neutron = connect(&server).await;
    let begin = Instant::now();
    let limited = neutron.list_floating_ips();
    let others = async {
        sleep(Duration::from_secs(1)).await;
        join_all((0..20).map(|_| neutron.list_floating_ips())).await
    };
    let (limited, others) = tokio::join!(limited, others);
    limited.expect("a read is retried");
    assert!(others.iter().all(Result::is_ok));
    let network = server.requests().into_iter().filter(|request| request.path.starts_with("/network"));
    let early = network.skip(1).filter(|request| request.at < begin + Duration::from_secs(4)).count();
    assert_eq!(early, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_parameters_has_no_question_mark() {
    let server = Server::start(|_: &ReceivedRequest| Reply::new(201, json!({"floatingip": row("one")}))).await;
    let neutron = connect(&server).await;
    let (network, description) = (NetworkId::new("n1"), "mark".to_owned());
    neutron
        .create_floating_ip(&NewFloatingIp { network, subnet: None, description }, &|| true)
        .await
        .expect("it is created");
    neutron.get_floating_ip(&FloatingIpId::new("one")).await.expect("it is read");
    let paths: Vec<_> = server.requests().into_iter().map(|request| request.path).collect();
    assert!(paths.len() == 3 && paths.iter().all(|path| !path.contains('?')), "{paths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_retry_after_is_returned_instead_of_awaited() {
    let server = Server::start(|_: &ReceivedRequest| {
        Reply::new(429, json!({"error": {"message": "slow down"}})).header("Retry-After", "40")
    })
    .await;
    let neutron = connect(&server).await;
    for _ in 0..5 {
        let error = neutron.list_floating_ips().await.expect_err("it is limited");
        assert_eq!(error.kind, ErrorKind::TooManyRequests);
        assert!(error.retry_after.is_some_and(|wait| wait > Duration::from_secs(30)), "{error:?}");
    }
    assert_eq!(server.count("GET /network"), 1);
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read() {
    let pages = |request: &ReceivedRequest| {
        assert!(request.path.contains("limit=1000") && request.path.contains("sort_key=id"), "{}", request.path);
        let next = json!([{"rel": "next", "href": "unused"}]);
        match request.path.split("marker=").nth(1).and_then(|rest| rest.split('&').next()) {
            None => Reply::new(200, json!({"floatingips": [row("a"), row("b")], "floatingips_links": next})),
            Some("b") => {
                Reply::new(200, json!({"floatingips": [row("c"), {"id": "unreadable"}], "floatingips_links": next}))
            }
            // A full last page links to an empty one.
            Some(_) => Reply::new(200, json!({"floatingips": [], "floatingips_links": []})),
        }
    };
    let server = Server::start(pages).await;
    let ids: Vec<_> =
        connect(&server).await.list_floating_ips().await.expect("it lists").into_iter().map(|ip| ip.id).collect();
    assert_eq!(ids, ["a", "b", "c"].map(FloatingIpId::new));
    assert_eq!(server.count("GET /network"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_marker_loses_no_row() {
    // Neutron returns the first page again. Then the listing begins again.
    let lists = AtomicUsize::new(0);
    let pages = move |request: &ReceivedRequest| {
        let more = |ids: [&str; 2]| {
            let next = json!([{"rel": "next", "href": "unused"}]);
            Reply::new(200, json!({"floatingips": ids.map(row), "floatingips_links": next}))
        };
        let is_first = !request.path.contains("marker=");
        let number = lists.fetch_add(usize::from(is_first), Ordering::Relaxed);
        match (is_first, number) {
            (true, 0) | (false, 1) => more(["a", "b"]),
            (true, _) => more(["a", "c"]),
            (false, _) => listing(&["d"]),
        }
    };
    let server = Server::start(pages).await;
    let ids: Vec<_> =
        connect(&server).await.list_floating_ips().await.expect("it lists").into_iter().map(|ip| ip.id).collect();
    assert_eq!(ids, ["a", "c", "d"].map(FloatingIpId::new));
    assert_eq!(server.count("GET /network"), 4);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_quota_is_none_and_no_error() {
    for (status, error_type) in [(403, "PolicyNotAuthorized"), (404, "HTTPNotFound")] {
        let server = Server::start(move |_: &ReceivedRequest| Reply::refusal(status, error_type)).await;
        assert_eq!(connect(&server).await.quota().await.expect("it is no error"), None);
        assert_eq!((server.count("GET /network/v2.0/quotas/p1/details"), server.count("GET /network")), (1, 1));
    }
    let quota = json!({"quota": {"floatingip": {"limit": -1, "used": 3, "reserved": 0}, "port": {"limit": 1}}});
    let server = Server::start(move |_: &ReceivedRequest| Reply::new(200, quota.clone())).await;
    let quota = connect(&server).await.quota().await.expect("it reads").expect("there is one");
    assert_eq!((quota.limit, quota.used), (None, 3));
}
