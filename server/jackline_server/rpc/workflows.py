"""WorkflowService: each method checks, asks a use case, and shows the answer."""

from typing import cast

from jackline.v1 import workflow_service_pb2
from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.workflow_requests import (
    check_revision,
    read_put,
    read_validate,
    read_workflows_page,
)
from jackline_server.api.workflow_views import (
    describe_response,
    get_response,
    put_response,
    revision_message,
    validate_response,
)
from jackline_server.rpc.calls import Call
from jackline_server.runtime.service.ports import WorkflowUseCases


class WorkflowMethods:
    """The methods. All raise Refused and DoorRefused."""

    def __init__(self, *, workflows: WorkflowUseCases, tokens: PageTokens) -> None:
        self._workflows = workflows
        self._tokens = tokens

    async def validate_workflow(
        self, request: workflow_service_pb2.ValidateWorkflowRequest, call: Call
    ) -> workflow_service_pb2.ValidateWorkflowResponse:
        """ValidateWorkflow."""
        source, beside = read_validate(request)
        return validate_response(await self._workflows.check(call.tenant, source, beside=beside))

    async def put_workflow(
        self, request: workflow_service_pb2.PutWorkflowRequest, call: Call
    ) -> workflow_service_pb2.PutWorkflowResponse:
        """PutWorkflow."""
        done = await self._workflows.put(
            call.caller, read_put(request), alias=request.alias, expect_digest=request.expect_digest
        )
        return put_response(done)

    async def get_workflow(
        self, request: workflow_service_pb2.GetWorkflowRequest, call: Call
    ) -> workflow_service_pb2.GetWorkflowResponse:
        """GetWorkflow."""
        check_revision(request)
        return get_response(await self._workflows.get_revision(call.tenant, request.workflow))

    async def list_workflows(
        self, request: workflow_service_pb2.ListWorkflowsRequest, call: Call
    ) -> workflow_service_pb2.ListWorkflowsResponse:
        """ListWorkflows."""
        limit = read_workflows_page(request)
        after = ""
        if request.page_token:
            after = cast(str, self._tokens.read(call.tenant, request, request.page_token))
        rows = await self._workflows.revisions(call.tenant, after=after, limit=limit)
        response = workflow_service_pb2.ListWorkflowsResponse(
            revisions=[revision_message(row) for row in rows]
        )
        if len(rows) == limit:
            response.next_page_token = self._tokens.make(call.tenant, request, rows[-1].name)
        return response

    async def describe_workflow(
        self, request: workflow_service_pb2.DescribeWorkflowRequest, call: Call
    ) -> workflow_service_pb2.DescribeWorkflowResponse:
        """DescribeWorkflow."""
        check_revision(request)
        return describe_response(await self._workflows.describe(call.tenant, request.workflow))
