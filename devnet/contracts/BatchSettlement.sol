// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Multicall} from "@openzeppelin/contracts/utils/Multicall.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IBatchSettlement} from "./IBatchSettlement.sol";
import {IDepositCollector} from "./IDepositCollector.sol";

/**
 * The payment channels of x402's `batch-settlement` scheme, for a local chain. Functions, events, errors and typed data are those
 * of the contract on Base.
 *
 * A channel holds deposits of one payer for one receiver in one token. Its id is the hash of its terms, so the first deposit opens it.
 * The payer signs vouchers: "the receiver may claim up to this total". The receiver records a claim of that total, and later settles
 * all its claims in one transfer. What is not claimed goes back to the payer: at once if the receiver agrees, else after a delay.
 *
 * The local chain places this code at its address without running the constructor there, so nothing may depend on initial storage.
 */
contract BatchSettlement is IBatchSettlement, EIP712, Multicall, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    uint40 public constant MIN_WITHDRAW_DELAY = 15 minutes;
    uint40 public constant MAX_WITHDRAW_DELAY = 30 days;

    bytes32 public constant CHANNEL_CONFIG_TYPEHASH = keccak256(
        "ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)"
    );
    bytes32 public constant VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 maxClaimableAmount)");
    bytes32 public constant REFUND_TYPEHASH = keccak256("Refund(bytes32 channelId,uint256 nonce,uint128 amount)");
    bytes32 public constant CLAIM_ENTRY_TYPEHASH =
        keccak256("ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)");
    bytes32 public constant CLAIM_BATCH_TYPEHASH = keccak256(
        "ClaimBatch(ClaimEntry[] claims)ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)"
    );

    mapping(bytes32 channelId => Channel) public channels;
    mapping(bytes32 channelId => Withdrawal) public pendingWithdrawals;
    mapping(bytes32 channelId => uint256) public refundNonce;
    mapping(address receiver => mapping(address token => Account)) public receivers;

    constructor() EIP712("x402 Batch Settlement", "1") {}

    /// Anyone may deposit for any payer: the collector decides whose tokens arrive, and only their arrival counts.
    function deposit(ChannelConfig calldata config, uint128 amount, address collector, bytes calldata collectorData)
        external
        nonReentrant
    {
        bool hasParties = config.payer != address(0) && config.receiver != address(0);
        require(hasParties && config.receiverAuthorizer != address(0) && config.token != address(0), InvalidChannel());
        bool isInRange = config.withdrawDelay >= MIN_WITHDRAW_DELAY && config.withdrawDelay <= MAX_WITHDRAW_DELAY;
        require(isInRange, WithdrawDelayOutOfRange());
        require(amount > 0, ZeroDeposit());
        require(collector != address(0), InvalidCollector());
        bytes32 id = getChannelId(config);
        Channel storage channel = channels[id];
        require(amount <= type(uint128).max - channel.balance, DepositOverflow());
        channel.balance += amount;

        IERC20 token = IERC20(config.token);
        uint256 held = token.balanceOf(address(this));
        IDepositCollector(collector).collect(config.payer, config.token, amount, id, collectorData);
        require(token.balanceOf(address(this)) == held + amount, DepositCollectionFailed());

        if (channel.balance == amount && channel.totalClaimed == 0) emit ChannelCreated(id, config);
        emit Deposited(id, msg.sender, amount, channel.balance);
    }

    /// Records claims of channels whose receiver or receiver's authorizer is the caller.
    function claim(VoucherClaim[] calldata claims) external nonReentrant {
        require(claims.length > 0, EmptyBatch());
        for (uint256 i = 0; i < claims.length; i++) {
            require(_isReceiverSide(claims[i].voucher.channel), NotAuthorizedToClaim());
            _claim(claims[i]);
        }
    }

    /// Records claims that one receiver's authorizer has signed. Anyone may bring them.
    function claimWithSignature(VoucherClaim[] calldata claims, bytes calldata signature) external nonReentrant {
        require(claims.length > 0, EmptyBatch());
        address authorizer = claims[0].voucher.channel.receiverAuthorizer;
        _requireSignature(authorizer, getClaimBatchDigest(claims), signature);
        for (uint256 i = 0; i < claims.length; i++) {
            require(claims[i].voucher.channel.receiverAuthorizer == authorizer, NotReceiverAuthorizer());
            _claim(claims[i]);
        }
    }

    /// Pays a receiver all that it has claimed in a token. Anyone may call.
    function settle(address receiver, address token) external nonReentrant {
        Account storage account = receivers[receiver][token];
        uint128 amount = account.totalClaimed - account.totalSettled;
        if (amount == 0) return;
        account.totalSettled = account.totalClaimed;
        IERC20(token).safeTransfer(receiver, amount);
        emit Settled(receiver, token, msg.sender, amount);
    }

    /// Starts a withdrawal without the receiver's consent. The receiver has the delay to claim what it is owed.
    function initiateWithdraw(ChannelConfig calldata config, uint128 amount) external nonReentrant {
        require(_isPayerSide(config), InvalidChannel());
        require(amount > 0, NothingToWithdraw());
        bytes32 id = getChannelId(config);
        require(pendingWithdrawals[id].initiatedAt == 0, WithdrawalAlreadyPending());
        require(amount <= _free(channels[id]), WithdrawAmountExceedsAvailable());
        uint40 now_ = uint40(block.timestamp);
        pendingWithdrawals[id] = Withdrawal(amount, now_);
        emit WithdrawInitiated(id, amount, now_ + config.withdrawDelay);
    }

    /// Ends a withdrawal after its delay. Claims since its start lower what is paid.
    function finalizeWithdraw(ChannelConfig calldata config) external nonReentrant {
        require(_isPayerSide(config), NotAuthorizedToFinalizeWithdraw());
        bytes32 id = getChannelId(config);
        Withdrawal memory pending = pendingWithdrawals[id];
        require(pending.initiatedAt != 0, WithdrawalNotPending());
        require(block.timestamp >= pending.initiatedAt + config.withdrawDelay, WithdrawDelayNotElapsed());
        delete pendingWithdrawals[id];
        uint128 paid = _take(id, pending.amount);
        emit WithdrawFinalized(id, msg.sender, paid);
        _payBack(config, id, paid);
    }

    /// Pays the payer back on behalf of the receiver, who calls.
    function refund(ChannelConfig calldata config, uint128 amount) external nonReentrant {
        require(_isReceiverSide(config), NotAuthorizedToRefund());
        _refund(config, getChannelId(config), amount);
    }

    /// Pays the payer back on behalf of the receiver's authorizer, who has signed. Each nonce works once, in order.
    function refundWithSignature(
        ChannelConfig calldata config,
        uint128 amount,
        uint256 nonce,
        bytes calldata receiverAuthorizerSignature
    ) external nonReentrant {
        bytes32 id = getChannelId(config);
        require(nonce == refundNonce[id], InvalidRefundNonce());
        _requireSignature(config.receiverAuthorizer, getRefundDigest(id, nonce, amount), receiverAuthorizerSignature);
        _refund(config, id, amount);
    }

    /// The id is the whole EIP-712 digest, so the same terms are another channel on another chain.
    function getChannelId(ChannelConfig calldata config) public view returns (bytes32) {
        // ChannelConfig holds only values of one word, so its ABI encoding is the encoding of EIP-712.
        return _hashTypedDataV4(keccak256(abi.encode(CHANNEL_CONFIG_TYPEHASH, config)));
    }

    function getVoucherDigest(bytes32 channelId, uint128 maxClaimableAmount) public view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(VOUCHER_TYPEHASH, channelId, maxClaimableAmount)));
    }

    function getRefundDigest(bytes32 channelId, uint256 nonce, uint128 amount) public view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(REFUND_TYPEHASH, channelId, nonce, amount)));
    }

    function getClaimBatchDigest(VoucherClaim[] calldata claims) public view returns (bytes32) {
        bytes32[] memory rows = new bytes32[](claims.length);
        for (uint256 i = 0; i < claims.length; i++) {
            Voucher calldata voucher = claims[i].voucher;
            bytes32 id = getChannelId(voucher.channel);
            rows[i] = keccak256(
                abi.encode(CLAIM_ENTRY_TYPEHASH, id, voucher.maxClaimableAmount, claims[i].totalClaimed)
            );
        }
        return _hashTypedDataV4(keccak256(abi.encode(CLAIM_BATCH_TYPEHASH, keccak256(abi.encodePacked(rows)))));
    }

    /// Records one claim. A total that is recorded already is skipped before its signature is read: a repeated claim does no harm.
    function _claim(VoucherClaim calldata row) private {
        ChannelConfig calldata config = row.voucher.channel;
        bytes32 id = getChannelId(config);
        Channel storage channel = channels[id];
        uint128 total = row.totalClaimed;
        if (total <= channel.totalClaimed) return;
        require(total <= row.voucher.maxClaimableAmount, ClaimExceedsCeiling());
        require(total <= channel.balance, ClaimExceedsBalance());
        _requireVoucher(config, getVoucherDigest(id, row.voucher.maxClaimableAmount), row.signature);
        uint128 added = total - channel.totalClaimed;
        channel.totalClaimed = total;
        receivers[config.receiver][config.token].totalClaimed += added;
        emit Claimed(id, msg.sender, added, total);
    }

    function _refund(ChannelConfig calldata config, bytes32 id, uint128 amount) private {
        require(amount > 0, ZeroRefund());
        refundNonce[id]++;
        uint128 paid = _take(id, amount);
        if (paid == 0) return;
        Withdrawal storage pending = pendingWithdrawals[id];
        if (paid >= pending.amount) delete pendingWithdrawals[id];
        else pending.amount -= paid;
        emit Refunded(id, msg.sender, paid);
        _payBack(config, id, paid);
    }

    /// Lowers the balance by `amount`, or by all that is not claimed if that is less. Returns by how much.
    function _take(bytes32 id, uint128 amount) private returns (uint128 taken) {
        Channel storage channel = channels[id];
        taken = uint128(Math.min(amount, _free(channel)));
        channel.balance -= taken;
    }

    /// Pays the payer, whoever calls. A channel that ever had a claim never closes, because the total of its claims stays.
    function _payBack(ChannelConfig calldata config, bytes32 id, uint128 amount) private {
        Channel storage channel = channels[id];
        if (channel.balance == 0 && channel.totalClaimed == 0) emit ChannelClosed(id, config);
        if (amount > 0) IERC20(config.token).safeTransfer(config.payer, amount);
    }

    function _free(Channel storage channel) private view returns (uint128) {
        return channel.balance - channel.totalClaimed;
    }

    function _isPayerSide(ChannelConfig calldata config) private view returns (bool) {
        return msg.sender == config.payer || msg.sender == config.payerAuthorizer;
    }

    function _isReceiverSide(ChannelConfig calldata config) private view returns (bool) {
        return msg.sender == config.receiver || msg.sender == config.receiverAuthorizer;
    }

    /// With an authorizer only its key signs, not the payer. Without one the payer signs, and a payer with code decides itself.
    function _requireVoucher(ChannelConfig calldata config, bytes32 digest, bytes calldata signature) private view {
        if (config.payerAuthorizer == address(0)) return _requireSignature(config.payer, digest, signature);
        require(ECDSA.recoverCalldata(digest, signature) == config.payerAuthorizer, InvalidSignature());
    }

    function _requireSignature(address signer, bytes32 digest, bytes calldata signature) private view {
        require(SignatureChecker.isValidSignatureNowCalldata(signer, digest, signature), InvalidSignature());
    }
}
