"""The settings of a Session, and what a request changes of them."""

from msgspec import UnsetType

from turnwire_protocol.frames import ConfigChange
from turnwire_protocol.messages import Config


def changed(config: Config, change: ConfigChange | None) -> Config:
    """What a change leaves out stays as it is."""
    if change is None:
        return config
    return Config(
        model=config.model if isinstance(change.model, UnsetType) else change.model,
        approval_mode=config.approval_mode if isinstance(change.approval_mode, UnsetType) else change.approval_mode,
    )
