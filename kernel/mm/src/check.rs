//! Verifies everything against everything: counts against tables, tables against VMAs, references against mappings.
