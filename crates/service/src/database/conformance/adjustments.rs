//! Conformance of credits and debits by the operator: idempotency by reference, and lists.

use futures_util::future::join_all;

use super::{Engine, Fixture};
use crate::clock::Moment;
use crate::ledger::{Adjusted, Adjustment, Money, Purse, Reason};

const NOW: Moment = Moment(1_000);

fn of(purse: Purse, amount: i64, reference: Option<&str>) -> Adjustment {
    let reference = reference.map(str::to_owned);
    Adjustment { purse, amount: Money::from_smallest(amount), reference, note: Some("why".to_owned()) }
}

impl<E: Engine> Fixture<E> {
    async fn adjust(&self, adjustment: &Adjustment, now: Moment) -> Adjusted {
        self.database.adjust(self.customer, adjustment, now).await.unwrap()
    }

    async fn free_and_balance(&self) -> (i64, i64) {
        let purses = self.database.purses(self.customer).await.unwrap();
        (purses.free.smallest(), purses.balance.smallest())
    }
}

pub(crate) async fn a_credit_that_is_sent_again_is_made_once(engine: impl Engine) {
    let mut fixture = Fixture::new(engine).await;
    let credit = of(Purse::Balance, 7, Some("invoice 1"));
    assert_eq!(fixture.adjust(&credit, NOW).await, Adjusted::Done);
    fixture.crash().await;
    let with_another_note = Adjustment { note: None, ..credit.clone() };
    for again in [&credit, &with_another_note] {
        assert_eq!(fixture.adjust(again, NOW).await, Adjusted::Before);
    }
    for other in [
        of(Purse::Balance, 8, Some("invoice 1")),
        of(Purse::Free, 7, Some("invoice 1")),
        of(Purse::Balance, -7, Some("invoice 1")),
    ] {
        assert_eq!(fixture.adjust(&other, NOW).await, Adjusted::ReferenceUsed);
    }
    assert_eq!(fixture.free_and_balance().await, (0, 7));
    // References belong to their account, and adjustments without a reference are never idempotent.
    let other = fixture.account("other").await.id;
    assert_eq!(fixture.database.adjust(other, &credit, NOW).await.unwrap(), Adjusted::Done);
    for _ in 0..2 {
        assert_eq!(fixture.adjust(&of(Purse::Balance, 7, None), NOW).await, Adjusted::Done);
    }
    assert_eq!(fixture.free_and_balance().await, (0, 21));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn credits_with_one_reference_at_the_same_moment_are_made_once(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let credit = of(Purse::Free, 7, Some("voucher"));
    let all = join_all((0..16).map(|_| fixture.adjust(&credit, NOW))).await;
    assert_eq!(all.iter().filter(|adjusted| **adjusted == Adjusted::Done).count(), 1, "{all:?}");
    assert!(all.iter().all(|adjusted| matches!(adjusted, Adjusted::Done | Adjusted::Before)), "{all:?}");
    assert_eq!(fixture.free_and_balance().await, (7, 0));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_debit_takes_what_its_purse_holds_and_no_more(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    for (purse, amount) in [(Purse::Balance, 10), (Purse::Free, 3)] {
        assert_eq!(fixture.adjust(&of(purse, amount, None), NOW).await, Adjusted::Done);
    }
    let too_much = fixture.adjust(&of(Purse::Balance, -11, Some("typo")), NOW).await;
    assert_eq!(too_much, Adjusted::TooLittle { owned: Money::from_smallest(10) });
    assert_eq!(fixture.free_and_balance().await, (3, 10));
    for adjusted in [Adjusted::Done, Adjusted::Before] {
        assert_eq!(fixture.adjust(&of(Purse::Balance, -10, Some("typo")), NOW).await, adjusted);
    }
    assert_eq!(fixture.adjust(&of(Purse::Free, -1, None), NOW).await, Adjusted::Done);
    assert_eq!(fixture.free_and_balance().await, (2, 0));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn movements_without_a_task_are_listed_newest_first(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let list = async |limit, offset| {
        let movements = fixture.database.movements(fixture.customer, limit, offset).await.unwrap();
        let row = |movement: crate::operator::MovementOverview| {
            let amount = movement.amount.smallest();
            (movement.at.0, movement.reason, amount, movement.from, movement.to, movement.reference)
        };
        movements.into_iter().map(row).collect::<Vec<_>>()
    };
    fixture.adjust(&of(Purse::Balance, 5, Some("first")), Moment(1)).await;
    fixture.adjust(&of(Purse::Balance, -2, None), Moment(2)).await;
    fixture.create_task(fixture.customer, 1, Moment(3)).await;
    let first = Some("first".to_owned());
    let debit = (2, Reason::Debit, 2, Some(Purse::Balance), None, None);
    let credit = (1, Reason::Credit, 5, None, Some(Purse::Balance), first);
    assert_eq!(list(10, 0).await, [debit.clone(), credit]);
    assert_eq!(list(1, 0).await, [debit]);
    assert!(list(10, 2).await.is_empty());
    let movements = fixture.database.movements(fixture.customer, 10, 0).await.unwrap();
    assert!(movements.iter().all(|movement| movement.note.as_deref() == Some("why")));

    for second in 10..80 {
        fixture.adjust(&of(Purse::Balance, 1, None), Moment(second)).await;
    }
    fixture.database.carry_movements(Moment(80), Moment(100)).await.unwrap();
    assert!(list(10, 0).await.iter().all(|(_, reason, ..)| *reason == Reason::Carried));
    let again = of(Purse::Balance, 5, Some("first"));
    assert_eq!(fixture.adjust(&again, Moment(101)).await, Adjusted::Before);
    fixture.assert_books_are_right().await;
}
