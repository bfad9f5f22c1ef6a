"""Popular packages, and whether a name imitates one of them."""

from __future__ import annotations

import re
from functools import lru_cache

from skills_core.audit.skill.package_names import Ecosystem

__all__ = ["imitated"]

_PYTHON_TEXT = """
requests numpy pandas scipy matplotlib pillow urllib3 certifi setuptools boto3 botocore pyyaml cryptography
jinja2 click flask django fastapi pydantic sqlalchemy beautifulsoup4 lxml openpyxl selenium playwright pytest
tensorflow torch torchvision transformers scikit-learn openai anthropic langchain aiohttp httpx colorama tqdm
rich typer psutil paramiko pycryptodome opencv-python pdfplumber pypdf pypdf2 reportlab python-docx
python-pptx python-dateutil python-dotenv pyinstaller websocket-client websockets redis celery pymongo
psycopg2 psycopg2-binary protobuf grpcio google-cloud-storage azure-core jsonschema markdown tabulate networkx
sympy nltk spacy gensim huggingface-hub tokenizers streamlit gradio markitdown feedparser tweepy discord.py
virtualenv poetry black pylint mypy jupyter notebook ipython moviepy imageio pytesseract pdf2image playwright
docx2txt xlsxwriter tiktoken sentence-transformers duckdb polars pyarrow
"""
_PYTHON = frozenset(_PYTHON_TEXT.split())
_NODE_TEXT = """
react react-dom lodash express axios chalk commander typescript webpack eslint prettier next vue angular
jquery moment dayjs uuid debug dotenv request async bluebird inquirer yargs glob rimraf mkdirp semver
cross-env body-parser mongoose mongodb socket.io puppeteer playwright cheerio node-fetch electron babel-core
jest mocha chai sinon nodemon pm2 tailwindcss postcss autoprefixer vite rollup esbuild parcel redux rxjs zod
underscore classnames styled-components discord.js ethers web3 bcrypt jsonwebtoken passport cors helmet morgan
winston sharp multer pdf-lib docx pptxgenjs exceljs marked highlight.js three d3 chart.js svelte prisma
typeorm sequelize graphql ts-node turbo nx lerna husky create-react-app create-vite create-next-app
http-server serve concurrently shelljs execa ora minimist colors
"""
_NODE = frozenset(_NODE_TEXT.split())
_POPULAR = {Ecosystem.PYTHON: _PYTHON, Ecosystem.NODE: _NODE, Ecosystem.GO: frozenset[str]()}

_GENUINE_TEXT = """
preact flash vuex nuxt nest koa jsdom pytz six attrs nose httpcore httplib2 lodash-es typed-ast pypdf3 pypdfium2
pymupdf docxtpl texts vitest got ky pino jimp dask blue flasgger tensorboard torchaudio colorlog coloredlogs
color colour click-log express-session markdown2 markdown-it marker pyaml ruamel.yaml psycopg pymysql pygments
httpie aiofiles uuidv4 nuid hiredis ioredis mypyc puppeteer-core playwright-core socket.io-client serve-static
server opn nodemailer prism newt rich-cli celery-types pandoc d3-array nextra pipx flake
"""
_GENUINE = frozenset(_GENUINE_TEXT.split())
# Other packages with names that are near a popular one.

_MIN_LENGTH = 4
_LONG = 7
_MEDIUM = 5
_SEPARATORS = re.compile(r"[-_.]+")


@lru_cache(maxsize=4096)
def imitated(ecosystem: Ecosystem, name: str) -> str | None:
    """Return the popular package whose name `name` imitates by a typo, None if there is none."""
    lowered = name.lower()
    popular = _POPULAR[ecosystem]
    plain = _SEPARATORS.sub("-", lowered)
    if plain in popular or lowered in popular or lowered in _GENUINE or name.startswith("@"):
        return None
    for each in sorted(popular):
        if (
            len(each) >= _MIN_LENGTH
            and abs(len(each) - len(plain)) <= 1
            and _is_typo(plain, _SEPARATORS.sub("-", each))
        ):
            return each
    return None


def _is_typo(name: str, other: str) -> bool:
    """Tell whether one edit makes one name of the other: a letter more, less or other, or two neighbours exchanged.

    In a short name, another letter often makes another word, so only a doubled letter and an exchange count there.
    """
    start = 0
    while start < min(len(name), len(other)) and name[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(name), len(other)) - start and name[-1 - end] == other[-1 - end]:
        end += 1
    left, right = name[start : len(name) - end], other[start : len(other) - end]
    if left == right[::-1] and len(left) == len("ab"):
        return True
    if len(left) + len(right) == 1:
        letter = left or right
        doubled = start > 0 and (name if left else other)[start - 1] == letter
        return doubled or letter == "-" or min(len(name), len(other)) >= _LONG
    return (
        len(left) == len(right) == 1
        and start > 0
        and (len(name) >= _MEDIUM or not left.isalpha())
        and not (left + right).isdigit()
    )
