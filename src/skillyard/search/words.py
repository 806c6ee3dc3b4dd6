"""Tokens of a request and of a skill, in the form in which they are compared, and English words for Chinese ones.

Latin words lose their case and the commonest English endings (`merging`, `merged` and `merges` meet), and `camelCase`,
`kebab-case` and `snake_case` come apart. Chinese, Japanese and Korean text becomes overlapping pairs of characters. Stop words
and single Latin letters are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Final

_CJK_RANGES: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_ASCII_RUN: Final = re.compile("[A-Za-z0-9]+")
_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_COMPOUND: Final = re.compile(r"(?<![\w-])([A-Za-z0-9]+)[-_]([A-Za-z0-9]+)(?![\w-])")
# Two words that mean something else together: a party is not a third party.
_THIRD_PARTY: Final = re.compile(r"\bthird[- ]part(?:y|ies)\b", re.IGNORECASE)
_VOWEL: Final = re.compile(r"[aeiouy]")
LONGEST: Final = 40
"""Characters of one word; what is longer is data, not language."""

_ENGLISH: Final = """
    about across after again all also an and any are as at be been before being between both but by can could did do
    does doing done during each etc for from had has have having he help helps her here him his how if in into is it its itself
    just let like may me might more most must my need needs no nor not of off on once only or other our out over own per
    please same shall she should skill skills so some such than that the their them then there these they this those
    through to too under until up upon us use used user users uses using via want wants was we well were what when
    whenever where whether which while who whom why will with within without would you your
"""
_CHINESE: Final = (
    "一个 一下 一些 什么 怎么 如何 可以 需要 帮我 帮忙 请问 我要 我想 这个 那个 以及 或者 使用 用户 时候 的时 技能"
)
STOP_WORDS: Final = frozenset(_ENGLISH.split())
_WIDE_STOP_WORDS: Final = frozenset(_CHINESE.split())


def words(text: str) -> list[str]:
    """The comparable words of `text`, in order, with repetitions."""
    if not text.isascii():
        text = plain(text)
    text = _THIRD_PARTY.sub("thirdparty", text)
    result: list[str] = []
    for run in _runs(text):
        if run.isascii():
            result += _latin(run)
        elif _wide_run().match(run):
            result += _pairs(run)
        elif 1 < len(run) <= LONGEST:
            result.append(_cyrillic(run.casefold()))
    return result


def run_words(text: str) -> Sequence[str]:
    """The same of `text` that has no ASCII character but letters and digits: where it is all ASCII, it is one run."""
    if text.isascii():
        return _uncached_latin(text)
    if len(text) == 2 and "\u4e00" <= text[0] <= "\u9fff" and "\u4e00" <= text[1] <= "\u9fff":
        return () if text in _WIDE_STOP_WORDS else (text,)
    return _pairs(text) if _han().fullmatch(text) else words(text)


def runs(text: str) -> list[str]:
    """`text` taken apart as it is written: runs of letters and digits, pairs of characters where there are no spaces."""
    result: list[str] = []
    for run in _runs(text):
        result += [run] if run.isascii() else _pairs(run) if _wide_run().match(run) else [run]
    return result


def _runs(text: str) -> list[str]:
    """Runs of letters and digits of one kind: Latin and other alphabets, or characters without spaces between words."""
    return (_ASCII_RUN if text.isascii() else _run()).findall(text)


# Python compiles a pattern with thousands of characters for milliseconds; much text needs none of these.
@cache
def _run() -> re.Pattern[str]:
    return re.compile(rf"[^\W_{_CJK_RANGES}]+|[{_CJK_RANGES}]+")


@cache
def _wide_run() -> re.Pattern[str]:
    return re.compile(rf"[{_CJK_RANGES}]")


@cache
def _han() -> re.Pattern[str]:
    """Chinese characters; these have no other form and no accents."""
    return re.compile("[\u4e00-\u9fff]+")


def in_order(sequence: Iterable[str]) -> str:
    """Words as one text; that of words which stand together and in order in others is a part of theirs.

    Finding a text in another one is linear; comparing at each position is not.
    """
    return f" {' '.join(sequence)} "


def compounds(text: str) -> list[str]:
    """Words of `text` made of two with a hyphen or underscore, written as one: `front-end` is also `frontend`."""
    return [stem(f"{one}{two}".lower()) for one, two in _COMPOUND.findall(text) if len(one) + len(two) <= LONGEST]


def _uncached_latin(run: str) -> tuple[str, ...]:
    """The words of one run of ASCII letters and digits."""
    lower = run.lower()
    if lower in STOP_WORDS or not 1 < len(run) <= LONGEST:
        return ()
    if run.isalpha() and (run.islower() or run.isupper() or run.istitle()):
        return (stem(lower),)
    if run.isdigit():
        return (run,)
    parts = [part.lower() for part in _PART.findall(run)]
    named = [stem(part) for part in parts if len(part) > 1 and not part.isdigit() and part not in STOP_WORDS]
    return tuple(dict.fromkeys([stem(lower), *named]))


_latin: Final = lru_cache(maxsize=1 << 16)(_uncached_latin)


def _pairs(run: str) -> list[str]:
    pairs = [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
    return [pair for pair in pairs if pair not in _WIDE_STOP_WORDS]


def plain(text: str) -> str:
    """`text` in compatibility form without accents: full-width letters and `café` become ASCII."""
    folded = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in folded if not unicodedata.combining(char)) if not folded.isascii() else folded
    return unicodedata.normalize("NFC", bare)  # Hangul came apart as well


def stem(word: str) -> str:
    """`word`, in lower case, without a common English ending; short words stay."""
    if len(word) <= 3 or not word.isascii():
        return word
    if word[-1] == "s":
        word = _singular(word)
    ending = _ENDINGS.get(word[-1], "")
    if ending and word.endswith(ending) and len(word) - len(ending) >= 3 and _VOWEL.search(word, 0, len(word) - len(ending)):
        word = _undoubled(word.removesuffix(ending))
    return word[:-1] if word[-1] == "e" and len(word) > 3 else word


_ENDINGS: Final = {"g": "ing", "d": "ed"}


# Endings of Russian nouns, adjectives and infinitives, as `plain` leaves them: without the breve of the short i.
_RUSSIAN: Final = """
    иями ями ами ием иям иях еи ии ои ыи ие ье ия ья ию ью их ых ую юю ая яя ою ею ого его ому ему ыми ими ым им ом ем ам ям ах
    ях ов ев ое ее ые ка ки ку ке кои кам ках ками ить ать ять еть ыть уть ишь ешь иите аите а е и о у ы ь ю я
"""
_RUSSIAN_END: Final = re.compile(rf"(?<=[а-я]{{3}})(?:{'|'.join(sorted(_RUSSIAN.split(), key=len, reverse=True))})$")
_REFLEXIVE: Final = re.compile("(?<=[а-я]{4})с[ья]$")


def _cyrillic(word: str) -> str:
    """A word in lower case without its Russian ending; any other stays."""
    if not "а" <= word[0] <= "я":
        return word
    return _RUSSIAN_END.sub("", _REFLEXIVE.sub("", word))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _undoubled(word: str) -> str:
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouylsz"
    return word[:-1] if doubled else word


# Endings that make one word of another (`simulator`, `simulation`), with what stays and the least syllables before.
_DERIVED: Final = (
    ("ization", "iz", 1), ("isation", "iz", 1), ("ational", "at", 1), ("ation", "at", 1), ("ator", "at", 1), ("ality", "al", 1),
    ("ivity", "iv", 1), ("bility", "bl", 1), ("ment", "", 1), ("ness", "", 1), ("ition", "it", 1), ("sion", "s", 1),
    ("tion", "t", 1), ("ance", "", 1), ("ence", "", 1), ("anc", "", 1), ("enc", "", 1), ("able", "", 1), ("ible", "", 1),
    ("abl", "", 1), ("ibl", "", 1), ("ical", "ic", 1), ("ally", "al", 1), ("ously", "ous", 1), ("ively", "iv", 1),
    ("ful", "", 1), ("ous", "", 1), ("ly", "", 1), ("er", "", 1), ("or", "", 1), ("iz", "", 2),
    ("at", "", 2), ("iv", "", 2), ("al", "", 2),
    ("ic", "", 2), ("y", "i", 1),
)  # fmt: skip
_SYLLABLE: Final = re.compile(r"[aeiouy][^aeiouy]")  # where one ends: each of them has one such position


def root(word: str) -> str:
    """The stem `word` without the endings that make nouns and adjectives of verbs: `simulat` and `simulation` meet."""
    if len(word) < 5 or not word.isascii():
        return word
    for _ in range(3):
        shorter = _underived(word)
        if shorter == word:
            break
        word = shorter
    doubled = len(word) > 4 and word[-1] == word[-2] and word[-1] in "lnrtgpmbd"
    return word[:-1] if doubled else word


# Those with the same last letter, in the same order: a quarter of a million words are looked at for a large catalog.
_DERIVED_BY_LETTER: Final = {
    letter: tuple(entry for entry in _DERIVED if entry[0][-1] == letter) for letter in {entry[0][-1] for entry in _DERIVED}
}


def _underived(word: str) -> str:
    for ending, rest, syllables in _DERIVED_BY_LETTER.get(word[-1:], ()):
        if word.endswith(ending):
            before = word[: -len(ending)]
            if len(before) >= 3 and len(_SYLLABLE.findall(before)) >= syllables:
                return before + rest
    return word


CHINESE_WORDS: Final = """
表格=spreadsheet excel xlsx|电子表格=spreadsheet excel xlsx|工作簿=workbook excel|公式=formula|单元格=cell spreadsheet
幻灯片=slides pptx presentation|演示文稿=presentation slides pptx|演示=presentation demo|文档=document docs|文件=file
部署=deploy deployment|发布=release publish|上线=deploy release|测试=test testing|单元测试=unit test|自动化=automation
浏览器=browser|网页=web page|网站=website|前端=frontend|后端=backend|接口=api interface|数据库=database sql|查询=query
数据=data|分析=analysis|可视化=visualization chart|图表=chart|图片=image|图像=image|照片=photo image|视频=video|音频=audio
语音=voice speech audio|字幕=subtitle caption|翻译=translate translation|摘要=summary summarize|总结=summary summarize
合并=merge|拆分=split|提取=extract|转换=convert|压缩=compress|解析=parse|抓取=scrape crawl|爬虫=scraper crawler scraping
搜索=search|检索=retrieval search|邮件=email mail|邮箱=email|日历=calendar|会议=meeting|纪要=minutes notes|笔记=notes
任务=task|待办=todo task|项目=project|计划=plan|需求=requirements|设计=design|界面=ui interface|原型=prototype|品牌=brand
代码=code|审查=review|评审=review|重构=refactor refactoring|调试=debug debugging|错误=error|修复=fix
漏洞=vulnerability security|安全=security|权限=permission|加密=encryption|密码=password|登录=login authentication
认证=authentication|性能=performance|优化=optimize optimization|监控=monitoring|日志=log logging|告警=alert
容器=container docker|集群=cluster kubernetes|云=cloud|服务器=server|网络=network|域名=domain dns|备份=backup|迁移=migration
提交=commit git|分支=branch git|仓库=repository|版本=version|依赖=dependency|架构=architecture|微服务=microservices
缓存=cache|队列=queue|消息=message|通知=notification|机器人=bot robot|聊天=chat|智能体=agent|模型=model|训练=training
微调=fine tuning|提示词=prompt|机器学习=machine learning|深度学习=deep learning|神经网络=neural network|统计=statistics
预测=forecast prediction|天气=weather|地图=map|股票=stock|财务=finance financial|会计=accounting|发票=invoice|报销=expense
税=tax|合同=contract|法律=legal law|法规=regulation|简历=resume cv|招聘=recruiting hiring|面试=interview|营销=marketing
广告=advertising ads|文案=copywriting copy|销售=sales|客户=customer|客服=customer support|电商=ecommerce|产品=product
用户研究=user research|竞品=competitor|市场=market|社交媒体=social media|小红书=xiaohongshu|微信=wechat|公众号=wechat
推特=twitter|视频号=wechat video|抖音=douyin tiktok|论文=paper academic|文献=literature citation|引用=citation|学术=academic
科研=research scientific|实验=experiment|化学=chemistry|分子=molecule|生物=biology|基因=gene genome|蛋白=protein|药物=drug
医学=medical|临床=clinical|物理=physics|数学=math|小说=novel fiction|写作=writing|文章=article|博客=blog|新闻=news
报告=report|教程=tutorial|课程=course|学习=learning|食谱=recipe|旅行=travel|航班=flight|酒店=hotel|健康=health|健身=fitness
音乐=music|游戏=game|动画=animation|三维=3d|字体=font|颜色=color|主题=theme|海报=poster|图标=icon|表单=form|填写=fill
签名=signature|水印=watermark|扫描=scan ocr|识别=recognition ocr|二维码=qr code|下载=download|上传=upload|脚本=script
命令行=cli command line|终端=terminal|插件=plugin|组件=component|移动=mobile|小程序=mini program|安卓=android|苹果=ios apple
支付=payment|订单=order|区块链=blockchain|钱包=wallet|交易=trading transaction|加密货币=crypto|思维导图=mind map
流程图=flowchart diagram|图=diagram|架构图=architecture diagram|时间序列=time series|清洗=cleaning|去重=deduplicate
正则=regex|编码=encoding|爬取=scrape crawl|本地化=localization i18n|国际化=i18n internationalization|无障碍=accessibility
搜索引擎优化=seo|关键词=keyword|知识库=knowledge base|问答=qa question answer|记忆=memory|工作流=workflow|流水线=pipeline
定时=schedule cron|提醒=reminder|截图=screenshot|剪辑=edit video|配音=voiceover tts|创建=create|生成=generate|编辑=edit
整理=organize|文件夹=folder|重命名=rename|技能=skill|规范=standard guidelines|变更日志=changelog|修改=edit
修订=revision tracked changes|改写=rewrite|润色=edit polish copy editing|校对=proofread|内部=internal|公司=company
企业=enterprise business|事故=incident|故障=incident failure|复盘=postmortem retrospective|定价=pricing|价格=price
策略=strategy|战略=strategy|应用商店=app store|应用=app application|商店=store|起草=draft|撰写=write writing
劳动合同=employment contract|劳动=employment|雇佣=employment|审计=audit|检查=check|验证=validate verify|仪表盘=dashboard
看板=dashboard kanban|面板=dashboard|报表=report|清单=checklist manifest|流程=process workflow|自动=automatic
集成=integration|持续集成=ci continuous integration|持续部署=cd continuous deployment|构建=build|搭建=build setup
编译=compile|打包=package bundle|安装=install|配置=configure configuration|环境=environment|变量=variable|参数=parameter
函数=function|类=class|对象=object|变化=change|状态=state|状态管理=state management|路由=routing router|表结构=schema
数据结构=data structure|索引=index|事务=transaction|缓慢=slow performance|内存=memory|并发=concurrency|异步=async
线程=thread|进程=process|算法=algorithm|排序=sort|推荐=recommendation|分类=classification|聚类=clustering|回归=regression
特征=feature|数据集=dataset|标注=annotation label|向量=vector embedding|嵌入=embedding|检索增强=rag retrieval augmented
大模型=llm language model|大语言模型=llm language model|多智能体=multi agent|对话=conversation chat|上下文=context
压缩包=zip archive|解压=unzip extract|批量=batch|格式=format|排版=layout typesetting|目录=folder directory|路径=path
链接=link|附件=attachment|打印=print|幻灯=slides|动态图=gif animation|动图=gif animation|绘图=draw drawing|画=draw
插图=illustration|头像=avatar|横幅=banner|标志=logo|网页设计=web design|响应式=responsive|样式=css style|按钮=button
登录页=login page|落地页=landing page|转化率=conversion rate|邮件营销=email marketing|订阅=subscription|会员=membership
增长=growth|用户=user|留存=retention|调研=research survey|问卷=survey|采访=interview|头脑风暴=brainstorming|点子=ideas
创意=creative ideas|路线图=roadmap|里程碑=milestone|风险=risk|合规=compliance|隐私=privacy gdpr
渗透测试=penetration testing pentest|攻击=attack|恶意软件=malware|逆向=reverse engineering|取证=forensics|防火墙=firewall
证书=certificate|令牌=token|会话=session|注入=injection|跨站=xss|注册=registration signup|付款=payment|退款=refund
账单=billing invoice|预算=budget|投资=investment|基金=fund|汇率=exchange rate|房产=real estate|保险=insurance|物流=logistics
库存=inventory|采购=procurement|供应链=supply chain|客户关系=crm|线索=leads|招标=tender bid|课堂=classroom teaching
作业=homework assignment|考试=exam|词汇=vocabulary|语法=grammar|口语=speaking|简报=briefing newsletter|周报=weekly report
日报=daily report|月报=monthly report|年报=annual report|演讲=speech presentation|稿件=manuscript article
剧本=screenplay script|诗=poem poetry|故事=story|标题=title headline|标签=tag label|评论=comment review|点赞=like
粉丝=followers|直播=live streaming|短视频=short video|播客=podcast|转写=transcription|听写=transcription
朗读=text to speech tts|人脸=face|物体=object|检测=detection|分割=segmentation|卫星=satellite|遥感=remote sensing
坐标=coordinates|导航=navigation|公交=transit bus|地铁=subway metro|温度=temperature|能源=energy|电力=power electricity
电池=battery|传感器=sensor|机械=mechanical|材料=materials|晶体=crystal|光谱=spectrum spectroscopy|仿真=simulation
模拟=simulation|控制=control|优先级=priority|截止=deadline|日程=schedule calendar|闹钟=alarm reminder|联系人=contacts
通讯录=contacts address book|短信=sms message|电话=phone call
"""


def translate_chinese(text: str) -> list[str]:
    """The English words, as `words` gives them, for the Chinese ones in `text`; the longest that fit, from the left."""
    if text.isascii() or not _han().search(text):
        return []
    table, longest = _table()
    result: dict[str, None] = {}
    at = 0
    while at < len(text):
        length = next((size for size in range(longest, 0, -1) if text[at : at + size] in table), 0)
        if length:
            result.update(dict.fromkeys(table[text[at : at + length]]))
        at += length or 1
    return list(result)


@cache
def _table() -> tuple[dict[str, tuple[str, ...]], int]:
    entries = (entry.partition("=") for line in CHINESE_WORDS.split("\n") for entry in line.split("|") if entry)
    table = {chinese: tuple(words(english)) for chinese, _, english in entries}
    return table, max(map(len, table))
