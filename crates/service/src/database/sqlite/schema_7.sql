-- Seventh version: targets that have stored nothing yet, by the account and folder that their files go to. Where
-- uploads go straight to a remote object store, these are looked for there.
CREATE INDEX targets_pending ON upload_targets (owner, folder, expires_at) WHERE is_used = 0 AND is_void = 0;
