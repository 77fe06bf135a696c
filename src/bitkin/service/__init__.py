"""Collections over HTTP: `create_app`, and a server that runs it."""

from bitkin.service.app import create_app as create_app
from bitkin.service.server import run as run
from bitkin.service.server import running as running
from bitkin.service.settings import ServiceLimits as ServiceLimits
from bitkin.service.tokens import Tokens as Tokens
