"""What race needs from outside, as small protocols. Adapters and test doubles meet them alike."""

from race.ports.engine import Container, ContainerSpec, Engine, ExecResult, Image, Limits
from race.ports.history import History
from race.ports.host import Host, Resolver, RootFileSystems
from race.ports.models import Agent, AgentLimits, AgentRun, Model, ModelReply

__all__ = [
    "Agent",
    "AgentLimits",
    "AgentRun",
    "Container",
    "ContainerSpec",
    "Engine",
    "ExecResult",
    "History",
    "Host",
    "Image",
    "Limits",
    "Model",
    "ModelReply",
    "Resolver",
    "RootFileSystems",
]
