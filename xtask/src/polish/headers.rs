//! Every request that progenitor writes carries the version of the document in a header `api-version`.
//! The document declares no such header, so it goes, and with it the map of headers that nothing else
//! is in.

use anyhow::{Result, ensure};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprMethodCall, File, Stmt};

const UNDOCUMENTED_HEADER: &str = "\"api-version\"";

/// progenitor's name for the headers of a request.
const MAP: &str = "header_map";

pub(super) fn drop_api_version(file: &mut File, operations: usize) -> Result<()> {
    let mut dropper = Dropper::default();
    dropper.visit_file_mut(file);
    ensure!(
        dropper.dropped == operations,
        "progenitor no longer writes the header that headers.rs drops: of {operations} operations, {} had it",
        dropper.dropped
    );
    Ok(())
}

#[derive(Default)]
struct Dropper {
    dropped: usize,
    /// Whether the map of the block that is being visited is gone.
    without_map: bool,
}

impl VisitMut for Dropper {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let before = block.stmts.len();
        block
            .stmts
            .retain(|statement| !(is_put_into_map(statement) && mentions(statement, UNDOCUMENTED_HEADER)));
        if block.stmts.len() < before {
            self.dropped += before - block.stmts.len();
            // An operation with headers of its own puts them in too.
            self.without_map = !block.stmts.iter().any(puts_into_map);
            if self.without_map {
                block.stmts.retain(|statement| !is_map(statement));
            }
        }
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        if let Expr::MethodCall(call) = expression
            && self.without_map
            && hands_over_map(call)
        {
            *expression = (*call.receiver).clone();
        }
        visit_mut::visit_expr_mut(self, expression);
    }
}

/// `let mut header_map = …;`
fn is_map(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Local(local) if matches!(&local.pat, syn::Pat::Ident(name) if name.ident == MAP))
}

/// `header_map.append(…);`
fn is_put_into_map(statement: &Stmt) -> bool {
    let Stmt::Expr(Expr::MethodCall(call), _) = statement else { return false };
    call.receiver.to_token_stream().to_string() == MAP
}

/// The same, also behind an `if` for a header that may be left out.
fn puts_into_map(statement: &Stmt) -> bool {
    !is_map(statement) && mentions(statement, &format!("{MAP} . "))
}

/// `….headers(header_map)`
fn hands_over_map(call: &ExprMethodCall) -> bool {
    call.method == "headers" && call.args.to_token_stream().to_string() == MAP
}

fn mentions(statement: &Stmt, text: &str) -> bool {
    statement.to_token_stream().to_string().contains(text)
}
