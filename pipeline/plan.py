"""The plan as a program for spark-submit: spark-submit pipeline/plan.py DIR... --to DIR (docs/audit.md)."""

from entrepot.cli.pipeline_plan import plan

if __name__ == "__main__":
    plan()
