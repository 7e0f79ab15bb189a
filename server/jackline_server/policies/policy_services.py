"""Asks policy services: `jackline.v1.PolicyService.Check` of an operator's server, over gRPC.

Owns the channels, made on first use and closed by `close`, and what a call looks like in each view. Whatever
goes wrong is no answer: the plan says what follows from that.
"""

import asyncio
from collections.abc import Mapping

import grpc
import grpc.aio

from jackline.v1 import plan_pb2, policy_pb2, policy_pb2_grpc, run_pb2
from jackline_server.core import json_text
from jackline_server.core.gate_plans import ArgumentsView, MaskPlan, Pii
from jackline_server.policies.timed import Timed
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply
from jackline_server.runtime.ports.gates import PolicyTarget
from jackline_server.runtime.ports.grpc import GrpcTls
from jackline_server.runtime.ports.masks import Masks

_EVERYTHING = MaskPlan(kinds=frozenset(Pii))
_VIEWS = {
    ArgumentsView.METADATA: plan_pb2.ARGUMENTS_VIEW_METADATA,
    ArgumentsView.REDACTED: plan_pb2.ARGUMENTS_VIEW_REDACTED,
    ArgumentsView.FULL: plan_pb2.ARGUMENTS_VIEW_FULL,
}
_EFFECTS = {
    "read": run_pb2.EFFECT_READ,
    "idempotent": run_pb2.EFFECT_IDEMPOTENT,
    "write": run_pb2.EFFECT_WRITE,
}
_OPTIONS = (("grpc.enable_retries", 0), ("grpc.max_receive_message_length", 4 * 1024 * 1024))
_TOO_LONG = "eceived message larger than max"
"""How gRPC says that it did not read an answer; the code alone may be the service's own."""

NO_CONNECTION = "there is no connection to the policy service"
"""The error of a question that reached nobody."""
_NET_MS = 100
"""The service keeps its deadline; this much later it is cut anyway."""


class PolicyServices:
    """Implements `Consultants` for policies. One channel a target; `close` ends them."""

    def __init__(self, targets: Mapping[str, PolicyTarget], *, masks: Masks) -> None:
        self._targets = targets
        self._masks = masks
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._timed = Timed()

    async def ask(self, question: Consultation) -> ConsultReply:
        """See `Consultants.ask`."""
        return await self._timed.ask(lambda: self._asked(question), timeout_ms=question.timeout_ms + _NET_MS)

    async def close(self) -> None:
        """End every channel; questions under way get no answer."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def _asked(self, question: Consultation) -> ConsultReply:
        target = self._targets.get(question.target)
        if target is None:
            return ConsultReply(answer=None, error="this server's config has no such policy service")
        try:
            channel = await self._channel(target)
        except (OSError, ValueError) as error:
            return ConsultReply(answer=None, error=f"it can't be asked: {type(error).__name__}")
        try:
            answer = await policy_pb2_grpc.PolicyServiceStub(channel).Check(
                self._request(question),
                timeout=question.timeout_ms / 1000,
                metadata=tuple((name.lower(), value.reveal()) for name, value in target.headers.items()),
                wait_for_ready=True,
            )
        except grpc.aio.AioRpcError as error:
            if _TOO_LONG in (error.details() or ""):
                # Whatever it says: an answer that can't be read must not become leave to go on.
                return ConsultReply(answer=False, reason="the policy service's answer is too long")
            return ConsultReply(answer=None, error=_failed(error.code(), channel))
        except (OSError, ValueError) as error:
            return ConsultReply(answer=None, error=f"it can't be asked: {type(error).__name__}")
        return _reply(answer)

    async def _channel(self, target: PolicyTarget) -> grpc.aio.Channel:
        known = self._channels.get(target.name)
        if known is not None:
            return known
        if target.tls is None:
            made = grpc.aio.insecure_channel(target.target, options=_OPTIONS)
        else:
            credentials = await asyncio.to_thread(_credentials, target.tls)
            made = grpc.aio.secure_channel(target.target, credentials, options=_OPTIONS)
        channel = self._channels.setdefault(target.name, made)
        if channel is not made:  # another question was quicker
            await made.close()
        return channel

    def _request(self, question: Consultation) -> policy_pb2.CheckRequest:
        given, place, view = question.variables, question.place, question.view or ArgumentsView.METADATA
        request = policy_pb2.CheckRequest(
            run_id=question.run_id,
            workflow=place.workflow,
            step_id=place.step_id,
            visit=place.visit,
            iteration=place.iteration,
            tool=str(given["tool"]),
            call_id=str(given["call_id"]),
            effect=_EFFECTS[str(given["effect"])],
            call_key=str(given["call_key"]),
            view=_VIEWS[view],
            principal=place.principal,
        )
        if view is not ArgumentsView.METADATA:
            request.arguments_json = self._shown(json_text.write(given["arguments"]), view).encode()
            subject = self._shown(json_text.write(dict(question.subject)), view)
            request.subject.update(json_text.parse_object(subject))
        return request

    def _shown(self, document: str, view: ArgumentsView) -> str:
        return document if view is ArgumentsView.FULL else self._masks.json(document, _EVERYTHING)


def _failed(code: grpc.StatusCode, channel: grpc.aio.Channel) -> str:
    """A call that ran out of time before there was a connection was not answered by anybody."""
    ran_out = code is grpc.StatusCode.DEADLINE_EXCEEDED
    if ran_out and channel.get_state() is not grpc.ChannelConnectivity.READY:
        return NO_CONNECTION
    return f"the policy service answered {code.name}"


def _credentials(tls: GrpcTls) -> grpc.ChannelCredentials:
    """Raises OSError for a file that can't be read."""
    return grpc.ssl_channel_credentials(
        root_certificates=None if tls.roots is None else tls.roots.read_bytes(),
        private_key=None if tls.key is None else tls.key.read_bytes(),
        certificate_chain=None if tls.certificate is None else tls.certificate.read_bytes(),
    )


def _reply(answer: policy_pb2.CheckResponse) -> ConsultReply:
    match answer.decision:
        case policy_pb2.POLICY_DECISION_ALLOW:
            return ConsultReply(answer=True, reason=answer.reason)
        case policy_pb2.POLICY_DECISION_DENY:
            return ConsultReply(answer=False, reason=answer.reason)
        case _:
            return ConsultReply(answer=None, error="the policy service gave no decision")
