-- Eighth version: which models were used in the last days, for the sort `trending`.
CREATE INDEX model_days_by_day ON model_days (day, model);
