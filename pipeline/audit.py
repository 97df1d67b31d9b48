"""The audit as a program for spark-submit: spark-submit pipeline/audit.py DIR... --to DIR (docs/audit.md)."""

from entrepot.cli.pipeline_audit import audit

if __name__ == "__main__":
    audit()
