"""The report as a program for spark-submit: spark-submit pipeline/report.py DIR... --to DIR (docs/audit.md)."""

from entrepot.cli.pipeline_report import report

if __name__ == "__main__":
    report()
