"""Requests of WorkflowService: what each field must be.

All raise DoorRefused (INVALID_REQUEST, FIELD_TOO_LARGE) with every violation at once.
"""

import re

from jackline.v1 import run_service_pb2, workflow_service_pb2
from jackline_server.api.checks import Checks
from jackline_server.api.limits import LIMITS
from jackline_server.runtime.ports.definitions import Source

_ALIAS = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
NO_ALIAS = "none"
"""As `expect_digest`: the alias must not exist yet."""


def check_reference(checks: Checks, field: str, reference: str) -> None:
    """Note a reference that is not `name`, `name@alias` or `name@digest`."""
    checks.name(field, reference)
    name, at, version = reference.partition("@")
    if reference and (not name or (at and not version) or "@" in version):
        checks.fail(field, "must be name, name@alias or name@digest", "FORMAT")


def check_source(
    checks: Checks, field: str, workflow: run_service_pb2.InlineWorkflow, *, may_be_empty: bool = False
) -> None:
    """Note a workflow without a text, or one that is too large with its files."""
    if not workflow.yaml and not may_be_empty:
        checks.fail(f"{field}.yaml", "required", "REQUIRED")
    size = len(workflow.yaml.encode())
    size += sum(len(path.encode()) + len(data) for path, data in workflow.files.items())
    checks.size(field, size, LIMITS.workflow_bytes)


def source_of(workflow: run_service_pb2.InlineWorkflow) -> Source:
    """The workflow as it was written."""
    return Source(yaml=workflow.yaml, files=dict(workflow.files))


def read_validate(request: workflow_service_pb2.ValidateWorkflowRequest) -> tuple[Source, list[Source]]:
    """A workflow to check, and those beside it. One without a text has an error: that it is empty."""
    checks = Checks()
    checks.well_formed(request)
    check_source(checks, "workflow", request.workflow, may_be_empty=request.HasField("workflow"))
    for index, workflow in enumerate(request.beside):
        check_source(checks, f"beside[{index}]", workflow, may_be_empty=True)
    checks.finish()
    return source_of(request.workflow), [source_of(workflow) for workflow in request.beside]


def read_put(request: workflow_service_pb2.PutWorkflowRequest) -> Source:
    """A workflow to store."""
    checks = Checks()
    checks.well_formed(request)
    check_source(checks, "workflow", request.workflow)
    if request.alias and not _ALIAS.fullmatch(request.alias):
        checks.fail("alias", "must be 1 to 63 characters of a-z, 0-9, ._-", "FORMAT")
    expect = request.expect_digest
    if expect and expect != NO_ALIAS and not _DIGEST.fullmatch(expect):
        checks.fail("expect_digest", "must be 64 hexadecimal digits, or none", "FORMAT")
    checks.finish()
    return source_of(request.workflow)


def check_revision(
    request: workflow_service_pb2.GetWorkflowRequest | workflow_service_pb2.DescribeWorkflowRequest,
) -> None:
    """A request for one revision."""
    checks = Checks()
    checks.well_formed(request)
    check_reference(checks, "workflow", request.workflow)
    checks.finish()


def read_workflows_page(request: workflow_service_pb2.ListWorkflowsRequest) -> int:
    """How many workflows to answer with."""
    checks = Checks()
    checks.well_formed(request)
    limit = checks.page_size("page_size", request.page_size)
    checks.finish()
    return limit
