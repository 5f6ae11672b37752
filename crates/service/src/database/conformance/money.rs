//! Conformance of storage charges, their payers, and amounts near the largest amount.

use std::time::Duration;

use super::{Engine, File, Fixture};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::files::Stored;
use crate::ledger::{Credit, Money, Purse, StorageRate};
use crate::operator::Refund;
use crate::queue::Cancel;

const DAY: i64 = 86_400_000;
const RATE: StorageRate = StorageRate { per_gib_day: Money::from_smallest(1_000) };

pub(crate) async fn storage_of_any_size_is_charged_for_any_time(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let pebibyte = File::of_size(1 << 50);
    fixture.upload(fixture.customer, fixture.customer, &pebibyte, Moment(0)).await;
    let later = Moment(1_000 * DAY);
    assert_eq!(fixture.database.charge_storage(RATE, later, Duration::MAX).await.unwrap(), 1);
    let purses = fixture.database.purses(fixture.customer).await.unwrap();
    assert_eq!(purses.owed().smallest(), (1 << 20) * 1_000 * 1_000);
    fixture.delete(fixture.customer, &pebibyte, later).await;
    fixture.assert_books_are_right().await;
}

pub(crate) async fn storage_is_not_charged_twice_after_the_clock_was_set_back(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let customer = fixture.customer;
    fixture.upload(customer, customer, &File::of_size(1 << 30), Moment(400 * DAY)).await;
    let owed = async || fixture.database.purses(customer).await.unwrap().owed().smallest();
    // Charges slightly out of order charge nothing twice.
    fixture.database.charge_storage(RATE, Moment(401 * DAY), Duration::MAX).await.unwrap();
    fixture.database.charge_storage(RATE, Moment(401 * DAY - 5_000), Duration::MAX).await.unwrap();
    fixture.database.charge_storage(RATE, Moment(401 * DAY), Duration::MAX).await.unwrap();
    assert_eq!(owed().await, 1_000);
    // The clock is set back for a moment, as far as 1970. The days up to its former time are already paid.
    for (day, charged) in [(398, 1_000), (1, 1_000), (401, 1_000), (402, 2_000)] {
        fixture.database.charge_storage(RATE, Moment(day * DAY), Duration::MAX).await.unwrap();
        assert_eq!(owed().await, charged, "on day {day}");
    }
    // A file that is stored after the others were deleted is charged at once.
    let other = fixture.account("other").await.id;
    let empty = File { name: "empty".to_owned(), ..File::of_size(0) };
    fixture.upload(other, other, &empty, Moment(402 * DAY)).await;
    fixture.upload(other, other, &File::of_size(1 << 30), Moment(400 * DAY)).await;
    fixture.database.charge_storage(RATE, Moment(401 * DAY), Duration::MAX).await.unwrap();
    assert_eq!(fixture.database.purses(other).await.unwrap().owed().smallest(), 1_000);
}

pub(crate) async fn a_clock_that_jumps_makes_no_large_bill(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let customer = fixture.customer;
    let bill = async |day: i64| {
        let at_most = Duration::from_hours(2 * 24);
        fixture.database.charge_storage(RATE, Moment(day * DAY), at_most).await.unwrap();
        fixture.database.purses(customer).await.unwrap().owed().smallest()
    };
    let file = File::of_size(1 << 30);
    fixture.upload(customer, customer, &file, Moment(DAY)).await;
    assert_eq!(bill(2).await, 1_000);
    for _ in 0..2 {
        assert_eq!(bill(20_000).await, 3_000);
    }
    assert_eq!(bill(20_001).await, 4_000);
    // A deletion knows no more than that a service is not stopped for weeks.
    fixture.delete(customer, &file, Moment(30_000 * DAY)).await;
    assert_eq!(bill(30_001).await, 11_000);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_debt_is_paid_with_the_next_bill(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let customer = fixture.customer;
    let file = File::of_size(1 << 30);
    fixture.upload(customer, customer, &file, Moment(0)).await;
    fixture.database.charge_storage(RATE, Moment(DAY), Duration::MAX).await.unwrap();
    let returned = [(Purse::Balance, Money::from_smallest(2_500))];
    fixture.database.set_purses(customer, &returned, Moment(DAY)).await.unwrap();
    let purses = async || {
        let purses = fixture.database.purses(customer).await.unwrap();
        (purses.balance.smallest(), purses.owed().smallest())
    };
    assert_eq!(purses().await, (2_500, 1_000));
    fixture.database.charge_storage(RATE, Moment(2 * DAY), Duration::MAX).await.unwrap();
    assert_eq!(purses().await, (500, 0));
    fixture.assert_books_are_right().await;

    fixture.database.charge_storage(RATE, Moment(3 * DAY), Duration::MAX).await.unwrap();
    fixture.delete(customer, &file, Moment(3 * DAY)).await;
    assert_eq!(purses().await, (0, 500));
    let returned = [(Purse::Balance, Money::from_smallest(600))];
    fixture.database.set_purses(customer, &returned, Moment(3 * DAY)).await.unwrap();
    fixture.database.charge_storage(RATE, Moment(4 * DAY), Duration::MAX).await.unwrap();
    assert_eq!(purses().await, (100, 0));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn an_account_that_cannot_be_charged_does_not_keep_the_others_free(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let largest_debt = [(Purse::Debt, Money::from_smallest(-i64::MAX))];
    fixture.database.set_purses(fixture.customer, &largest_debt, Moment(0)).await.unwrap();
    let other = fixture.account("other").await.id;
    for account in [fixture.customer, other] {
        fixture.upload(account, account, &File::of_size(1 << 30), Moment(0)).await;
    }
    let failed =
        fixture.database.charge_storage(RATE, Moment(DAY), Duration::MAX).await.unwrap_err().to_string();
    assert!(failed.contains("largest amount"), "{failed}");
    assert_eq!(fixture.database.purses(other).await.unwrap().owed().smallest(), 1_000);
    let no_debt = [(Purse::Debt, Money::ZERO)];
    fixture.database.set_purses(fixture.customer, &no_debt, Moment(DAY)).await.unwrap();
    assert_eq!(fixture.database.charge_storage(RATE, Moment(DAY), Duration::MAX).await.unwrap(), 1);
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().owed().smallest(), 1_000);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn an_operator_deletes_the_file_of_anyone(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let file = File::of_size(1 << 30);
    fixture.upload(fixture.customer, fixture.customer, &file, Moment(0)).await;
    let delete = async |owner| {
        let bucket = file.bucket(fixture.customer);
        fixture.database.delete_file(owner, &bucket, &file.key(), Moment(DAY)).await.unwrap()
    };
    assert_eq!(delete(Some(fixture.operator)).await, None, "it is that of another account");
    assert!(delete(None).await.is_some());
    assert_eq!(delete(None).await, None);
    fixture.database.charge_storage(RATE, Moment(9 * DAY), Duration::MAX).await.unwrap();
    assert_eq!(fixture.database.purses(fixture.customer).await.unwrap().owed().smallest(), 1_000);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_member_pays_for_what_it_uploads_for_its_organization(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (member, organization) = (fixture.customer, fixture.account("organization").await.id);
    let file = File::of_size(1 << 30);
    fixture.upload(organization, member, &file, Moment(0)).await;
    assert_eq!(fixture.database.usage(organization).await.unwrap().bytes, 1 << 30);
    assert_eq!(fixture.database.usage(member).await.unwrap().bytes, 0);
    let owed = async |account| fixture.database.purses(account).await.unwrap().owed().smallest();

    fixture.database.charge_storage(RATE, Moment(DAY), Duration::MAX).await.unwrap();
    assert_eq!((owed(member).await, owed(organization).await), (1_000, 0));
    fixture.assert_books_are_right().await;

    // Another member cannot replace the file. The organization can, and then pays until it deletes the file.
    let other = fixture.account("other").await.id;
    let refused = fixture.add_target(organization, other, &file, Moment(DAY)).await;
    assert_eq!(fixture.store(&refused, &refused.id, Moment(DAY)).await, Stored::Taken);
    fixture.upload(organization, organization, &file, Moment(DAY)).await;
    fixture.database.charge_storage(RATE, Moment(2 * DAY), Duration::MAX).await.unwrap();
    fixture.delete(organization, &file, Moment(3 * DAY)).await;
    fixture.database.charge_storage(RATE, Moment(4 * DAY), Duration::MAX).await.unwrap();
    assert_eq!((owed(member).await, owed(other).await, owed(organization).await), (1_000, 0, 2_000));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn an_organization_pays_for_the_files_of_a_member_who_has_left(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (member, organization) = (fixture.customer, fixture.account("organization").await.id);
    fixture.database.add_member(organization, member).await.unwrap();
    let file = File::of_size(1 << 30);
    fixture.upload(organization, member, &file, Moment(0)).await;
    let other = File { name: "other".to_owned(), ..File::of_size(1) };
    let unused = fixture.add_target(organization, member, &other, Moment(2 * DAY)).await;
    assert!(fixture.database.remove_member(organization, member, Moment(DAY)).await.unwrap());
    fixture.database.add_member(organization, member).await.unwrap();
    assert_eq!(fixture.store(&unused, &unused.id, Moment(DAY)).await, Stored::Void);
    fixture.database.charge_storage(RATE, Moment(3 * DAY), Duration::MAX).await.unwrap();
    let owed = async |account| fixture.database.purses(account).await.unwrap().owed().smallest();
    assert_eq!((owed(member).await, owed(organization).await), (1_000, 2_000));
    fixture.assert_books_are_right().await;
    fixture.delete(organization, &file, Moment(3 * DAY)).await;
    fixture.assert_books_are_right().await;
}

pub(crate) async fn who_pays_for_a_file_may_delete_it(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (member, organization) = (fixture.customer, fixture.account("organization").await.id);
    let other = fixture.account("other").await.id;
    for account in [member, other] {
        fixture.database.add_member(organization, account).await.unwrap();
    }
    let file = File::of_size(1 << 30);
    fixture.upload(organization, member, &file, Moment(0)).await;
    let (bucket, key) = (file.bucket(organization), file.key());
    let delete = async |account: AccountId| {
        fixture.database.delete_file(Some(account), &bucket, &key, Moment(DAY)).await.unwrap().is_some()
    };
    assert!(!delete(other).await, "another member pays nothing for it");
    assert!(delete(member).await);
    assert_eq!(fixture.database.usage(organization).await.unwrap().files, 0);
    fixture.database.charge_storage(RATE, Moment(3 * DAY), Duration::MAX).await.unwrap();
    let owed = async |account| fixture.database.purses(account).await.unwrap().owed().smallest();
    assert_eq!((owed(member).await, owed(organization).await), (1_000, 0));
    // The organization can delete files that others pay for, and pays for the remaining files of a former member.
    fixture.upload(organization, member, &file, Moment(3 * DAY)).await;
    assert!(fixture.database.remove_member(organization, member, Moment(3 * DAY)).await.unwrap());
    assert!(!delete(member).await, "it pays no more");
    assert!(delete(organization).await);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_credit_beyond_the_largest_amount_is_refused_in_plain_words(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let most = Money::from_smallest(i64::MAX);
    for (account, credit) in [(fixture.customer, Credit::Paid(most)), (fixture.operator, Credit::Free(most))]
    {
        fixture.database.credit(account, credit, Moment(0)).await.unwrap();
        for further in [Credit::Paid(most), Credit::Free(Money::from_smallest(1))] {
            let refused = fixture.database.credit(account, further, Moment(0)).await.unwrap_err();
            let refused = refused.to_string();
            assert!(refused.contains("would hold more than the largest amount"), "{refused}");
        }
        assert_eq!(fixture.database.purses(account).await.unwrap().spendable(), most);
    }
    fixture.assert_books_are_right().await;
}

pub(crate) async fn what_a_task_holds_can_always_come_back(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (database, customer) = (&fixture.database, fixture.customer);
    let most = Money::from_smallest(i64::MAX);
    let one = Money::from_smallest(1);
    database.credit(customer, Credit::Paid(most), Moment(0)).await.unwrap();
    let task = fixture.create_task(customer, i64::MAX, Moment(0)).await;
    for credit in [Credit::Paid(one), Credit::Free(one)] {
        let refused = database.credit(customer, credit, Moment(0)).await.unwrap_err().to_string();
        assert!(refused.contains("would hold more than the largest amount"), "{refused}");
    }
    let refused = database.set_purses(customer, &[(Purse::Free, one)], Moment(0)).await.unwrap_err();
    assert!(refused.to_string().contains("would hold more than the largest amount"), "{refused}");
    assert_eq!(database.cancel(customer, &task, Moment(0)).await.unwrap(), Cancel::Canceled);

    let charged = fixture.create_task(customer, 5, Moment(1)).await;
    fixture.succeed(Moment(1)).await;
    database.credit(customer, Credit::Free(Money::from_smallest(5)), Moment(2)).await.unwrap();
    fixture.create_task(customer, i64::MAX, Moment(2)).await;
    let refused = database.refund(&charged, Moment(2)).await.unwrap_err().to_string();
    assert!(refused.contains("would hold more than the largest amount"), "{refused}");
    fixture.succeed(Moment(2)).await;
    assert!(matches!(database.refund(&charged, Moment(2)).await.unwrap(), Refund::Done { .. }));
    fixture.assert_books_are_right().await;
}

pub(crate) async fn earnings_and_revenue_stop_at_the_largest_amount_and_nobody_else_notices(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    let (database, customer) = (&fixture.database, fixture.customer);
    let most = Money::from_smallest(i64::MAX);
    let mut tasks = Vec::new();
    for second in 0..3 {
        database.credit(customer, Credit::Paid(most), Moment(second)).await.unwrap();
        tasks.push(fixture.create_task(customer, i64::MAX, Moment(second)).await);
        fixture.succeed(Moment(second)).await;
        let purses = database.purses(customer).await.unwrap();
        assert_eq!((purses.spendable(), purses.held), (Money::ZERO, Money::ZERO));
        assert_eq!(database.purses(fixture.operator).await.unwrap().earnings, most);
    }
    fixture.assert_books_are_right().await;
    database.set_purses(fixture.operator, &[(Purse::Revenue, most)], Moment(3)).await.unwrap();
    fixture.upload(customer, customer, &File::of_size(1 << 30), Moment(0)).await;
    assert_eq!(database.charge_storage(RATE, Moment(DAY), Duration::MAX).await.unwrap(), 1);
    for _ in 0..2 {
        let accounts = database.accounts().await.unwrap();
        let (_, purses) = accounts.iter().find(|(account, _)| account.id == fixture.operator).unwrap();
        assert_eq!((purses.earnings, purses.revenue), (most, most));
        fixture.assert_books_are_right().await;
        database.consolidate().await.unwrap();
    }
    // Earnings beyond the largest amount are lost for refunds.
    assert!(matches!(database.refund(&tasks[0], Moment(DAY)).await.unwrap(), Refund::Done { .. }));
    let none_left = Refund::EarningsTooSmall { earnings: Money::ZERO };
    assert_eq!(database.refund(&tasks[1], Moment(DAY)).await.unwrap(), none_left);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn sums_beyond_the_largest_amount_are_audited(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    for _ in 0..3 {
        let most = Credit::Paid(Money::from_smallest(i64::MAX));
        fixture.database.credit(fixture.customer, most, Moment(0)).await.unwrap();
        let spent = [(Purse::Balance, Money::from_smallest(1))];
        fixture.database.set_purses(fixture.customer, &spent, Moment(0)).await.unwrap();
        let none = [(Purse::Balance, Money::ZERO)];
        fixture.database.set_purses(fixture.customer, &none, Moment(0)).await.unwrap();
    }
    fixture.assert_books_are_right().await;
}

pub(crate) async fn damage_that_makes_a_sum_more_than_an_integer_is_reported(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    for _ in 0..2 {
        fixture.create_task(fixture.customer, 0, Moment(0)).await;
    }
    for (free, balance) in [(0, i64::MAX), (i64::MAX, i64::MAX)] {
        let damage = format!("UPDATE tasks SET held_free = {free}, held_balance = {balance}");
        fixture.engine.execute(&damage).await;
        let faults = fixture.database.audit().await.unwrap().faults;
        assert!(faults.iter().any(|fault| fault.contains("what is held is not the price")), "{faults:?}");
    }
}
